// PNG: all colour types, depths and filters, palettes and transparency, interlaced or not. 16 bits are cut to 8.

import { crc32, inflateSync } from "node:zlib";
import { fail } from "../../core/errors.ts";
import { checkSize, damaged, type Picture } from "./picture.ts";

const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);

interface Header {
  readonly width: number;
  readonly height: number;
  readonly depth: number;
  /** 0 grey, 2 colour, 3 palette, 4 grey and alpha, 6 colour and alpha. */
  readonly colour: number;
  readonly interlaced: boolean;
}

/** Samples of a pixel as they are stored, by colour type. */
const samplesOf: Readonly<Record<number, number>> = { 0: 1, 2: 3, 3: 1, 4: 2, 6: 4 };
const depthsOf: Readonly<Record<number, readonly number[]>> = {
  0: [1, 2, 4, 8, 16],
  2: [8, 16],
  3: [1, 2, 4, 8],
  4: [8, 16],
  6: [8, 16],
};

export function isPng(bytes: Uint8Array): boolean {
  return bytes.byteLength >= 8 && signature.equals(bytes.subarray(0, 8));
}

export function decodePng(bytes: Uint8Array, name: string): Picture {
  if (!isPng(bytes)) fail("invalid_argument", `${name} is no PNG file`);
  const { header, palette, alphas, packed } = readChunks(bytes, name);
  const passes = header.interlaced ? interlacePasses(header) : [wholePass(header)];
  const total = passes.reduce((sum, pass) => sum + pass.height * (1 + rowBytes(header, pass.width)), 0);
  const raw = inflate(packed, total, name);
  const samples = samplesOf[header.colour] as number;
  const stored = new Uint8Array(header.width * header.height * samples);
  let at = 0;
  for (const pass of passes) at = readPass(raw, at, header, pass, stored, name);
  return coloured(header, stored, palette, alphas, name);
}

function readChunks(bytes: Uint8Array, name: string) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let header: Header | undefined;
  let palette: Uint8Array | undefined;
  let alphas: Uint8Array | undefined;
  const parts: Uint8Array[] = [];
  for (let at = 8; ; ) {
    if (at + 12 > bytes.byteLength) damaged(name, "it ends before its last chunk");
    const length = view.getUint32(at);
    if (length > bytes.byteLength - at - 12) damaged(name, "a chunk is longer than the file");
    const type = Buffer.from(bytes.subarray(at + 4, at + 8)).toString("latin1");
    const body = bytes.subarray(at + 8, at + 8 + length);
    if (crc32(bytes.subarray(at + 4, at + 8 + length)) !== view.getUint32(at + 8 + length))
      damaged(name, `the checksum of its ${/^[A-Za-z]{4}$/.test(type) ? type : "unknown"} chunk is wrong`);
    if (header === undefined && type !== "IHDR") damaged(name, "it does not begin with its header");
    if (type === "IHDR") header = readHeader(body, name);
    else if (type === "PLTE") palette = body;
    else if (type === "tRNS") alphas = body;
    else if (type === "IDAT") parts.push(body);
    else if (type === "IEND") break;
    at += 12 + length;
  }
  return { header: header as Header, palette, alphas, packed: Buffer.concat(parts) };
}

function readHeader(body: Uint8Array, name: string): Header {
  if (body.byteLength !== 13) damaged(name, "its header has the wrong size");
  const view = new DataView(body.buffer, body.byteOffset, 13);
  const [width, height] = [view.getUint32(0), view.getUint32(4)];
  const [depth, colour, packing, filtering, interlacing] = body.subarray(8) as unknown as [
    number,
    number,
    number,
    number,
    number,
  ];
  checkSize(width, height, name);
  if (!depthsOf[colour]?.includes(depth)) damaged(name, `colour type ${colour} with ${depth} bits does not exist`);
  if (packing !== 0 || filtering !== 0 || interlacing > 1) damaged(name, "its packing is unknown");
  return { width, height, depth, colour, interlaced: interlacing === 1 };
}

function inflate(packed: Uint8Array, total: number, name: string): Uint8Array {
  try {
    const raw = inflateSync(packed, { maxOutputLength: total });
    return raw.byteLength === total ? raw : damaged(name, "it has fewer rows than it says");
  } catch (thrown) {
    const more = (thrown as { code?: string }).code === "ERR_BUFFER_TOO_LARGE";
    return damaged(name, more ? "it has more rows than it says" : "its pixels cannot be unpacked");
  }
}

/** A part of the picture: every `step`th pixel from `x`, `y` on. */
interface Pass {
  readonly x: number;
  readonly y: number;
  readonly stepX: number;
  readonly stepY: number;
  readonly width: number;
  readonly height: number;
}

function wholePass({ width, height }: Header): Pass {
  return { x: 0, y: 0, stepX: 1, stepY: 1, width, height };
}

/** Adam7: seven passes, each filling what the ones before left out. */
function interlacePasses({ width, height }: Header): Pass[] {
  const grid = [
    [0, 0, 8, 8],
    [4, 0, 8, 8],
    [0, 4, 4, 8],
    [2, 0, 4, 4],
    [0, 2, 2, 4],
    [1, 0, 2, 2],
    [0, 1, 1, 2],
  ] as const;
  return grid
    .map(([x, y, stepX, stepY]) => ({
      x,
      y,
      stepX,
      stepY,
      width: Math.ceil((width - x) / stepX),
      height: Math.ceil((height - y) / stepY),
    }))
    .filter((pass) => pass.width > 0 && pass.height > 0);
}

function rowBytes({ depth, colour }: Header, width: number): number {
  return Math.ceil((width * depth * (samplesOf[colour] as number)) / 8);
}

/** Undoes the filters and spreads the samples, one byte each; gives where the next pass begins. */
function readPass(
  raw: Uint8Array,
  start: number,
  header: Header,
  pass: Pass,
  stored: Uint8Array,
  name: string,
): number {
  const { depth, colour, width } = header;
  const samples = samplesOf[colour] as number;
  const length = rowBytes(header, pass.width);
  const back = Math.max(1, (depth * samples) >> 3);
  let above: Uint8Array = new Uint8Array(length);
  for (let row = 0; row < pass.height; row++) {
    const at = start + row * (1 + length);
    const line = raw.subarray(at + 1, at + 1 + length);
    unfilter(raw[at] as number, line, above, back, name);
    above = line;
    const to = (pass.y + row * pass.stepY) * width;
    for (let column = 0; column < pass.width; column++) {
      const pixel = (to + pass.x + column * pass.stepX) * samples;
      for (let s = 0; s < samples; s++) stored[pixel + s] = sampleAt(line, column * samples + s, depth);
    }
  }
  return start + pass.height * (1 + length);
}

/** Of 16 bits the upper 8; fewer than 8 as they are. */
function sampleAt(line: Uint8Array, index: number, depth: number): number {
  if (depth === 8) return line[index] as number;
  if (depth === 16) return line[2 * index] as number;
  const bit = index * depth;
  return ((line[bit >> 3] as number) >> (8 - depth - (bit & 7))) & ((1 << depth) - 1);
}

function unfilter(kind: number, line: Uint8Array, above: Uint8Array, back: number, name: string): void {
  if (kind > 4) damaged(name, `row filter ${kind} does not exist`);
  if (kind === 0) return;
  for (let i = 0; i < line.length; i++) {
    const left = i >= back ? (line[i - back] as number) : 0;
    const up = above[i] as number;
    const corner = i >= back ? (above[i - back] as number) : 0;
    const guess = kind === 1 ? left : kind === 2 ? up : kind === 3 ? (left + up) >> 1 : nearest(left, up, corner);
    line[i] = (line[i] as number) + guess;
  }
}

/** The neighbour that is nearest to left + up - corner. */
function nearest(left: number, up: number, corner: number): number {
  const [a, b, c] = [Math.abs(up - corner), Math.abs(left - corner), Math.abs(left + up - 2 * corner)];
  return a <= b && a <= c ? left : b <= c ? up : corner;
}

/** Palettes become colours, few bits are spread over 0 to 255. */
function coloured(
  { width, height, depth, colour }: Header,
  stored: Uint8Array,
  palette: Uint8Array | undefined,
  alphas: Uint8Array | undefined,
  name: string,
): Picture {
  if (colour === 3) {
    if (palette === undefined || palette.length % 3 !== 0) damaged(name, "its palette is missing");
    const channels = alphas ? 4 : 3;
    const data = new Uint8Array(width * height * channels);
    for (let i = 0; i < stored.length; i++) {
      const entry = stored[i] as number;
      if (entry * 3 >= palette.length) damaged(name, `colour ${entry} is not in its palette`);
      for (let c = 0; c < 3; c++) data[i * channels + c] = palette[entry * 3 + c] as number;
      if (alphas) data[i * 4 + 3] = alphas[entry] ?? 255;
    }
    return { width, height, channels, data };
  }
  const channels = samplesOf[colour] as Picture["channels"];
  if (depth < 8)
    for (let i = 0; i < stored.length; i++) stored[i] = Math.round(((stored[i] as number) * 255) / ((1 << depth) - 1));
  return { width, height, channels, data: stored };
}
