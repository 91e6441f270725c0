// JPEG: baseline, extended and progressive files of 8 bits with Huffman codes, grey or YCbCr, any subsampling. CMYK, arithmetic
// coding, lossless and 12 bits are refused by name. The numbers of blocks come from jpeg-scan.ts, their pixels from here.

import { fail } from "../../core/errors.ts";
import { type HuffmanTable, huffmanTable } from "./jpeg-huffman.ts";
import { type Component, readScan, type Scan, zigzag } from "./jpeg-scan.ts";
import { checkSize, damaged, type Picture } from "./picture.ts";

interface Frame {
  readonly width: number;
  readonly height: number;
  readonly progressive: boolean;
  readonly components: readonly Component[];
  readonly unitsWide: number;
  readonly unitsHigh: number;
}

interface Tables {
  readonly quantisation: Map<number, Uint16Array>;
  readonly dc: Map<number, HuffmanTable>;
  readonly ac: Map<number, HuffmanTable>;
  restartEvery: number;
  /** What Adobe's programs say about colours: 0 as they are, 1 YCbCr. */
  transform: number | undefined;
}

/** A file of endless scans of one block each would keep us busy for ever. */
const scansMax = 256;

export function isJpeg(bytes: Uint8Array): boolean {
  return bytes[0] === 0xff && bytes[1] === 0xd8 && bytes[2] === 0xff;
}

export function decodeJpeg(bytes: Uint8Array, name: string): Picture {
  if (!isJpeg(bytes)) fail("invalid_argument", `${name} is no JPEG file`);
  const tables: Tables = {
    quantisation: new Map(),
    dc: new Map(),
    ac: new Map(),
    restartEvery: 0,
    transform: undefined,
  };
  let frame: Frame | undefined;
  let scans = 0;
  for (let at = 2; at + 1 < bytes.byteLength; ) {
    // Between segments anything else is filling.
    if (bytes[at] !== 0xff || bytes[at + 1] === 0xff || bytes[at + 1] === 0) {
      at++;
      continue;
    }
    const marker = bytes[at + 1] as number;
    at += 2;
    if (marker === 0xd9) break;
    if (marker === 0xd8 || marker === 0x01 || (marker >= 0xd0 && marker <= 0xd7)) continue;
    const length = ((bytes[at] ?? 0) << 8) | (bytes[at + 1] ?? 0);
    if (length < 2 || at + length > bytes.byteLength) damaged(name, "a segment is longer than the file");
    const body = bytes.subarray(at + 2, at + length);
    at += length;
    if (marker === 0xda) {
      if (frame === undefined) damaged(name, "pixels come before the size");
      if (++scans > scansMax) damaged(name, `it has more than ${scansMax} scans`);
      at = readScan(bytes, at, scanOf(body, frame, tables, name), name);
    } else if (isFrame(marker)) {
      if (frame !== undefined) damaged(name, "it has two sizes");
      frame = frameOf(marker, body, name);
    } else readTables(marker, body, tables, name);
  }
  if (frame === undefined || scans === 0) damaged(name, "it has no pixels");
  return pictureOf(frame, tables, name);
}

/** Start of frame, with the tables' own markers among their numbers. */
function isFrame(marker: number): boolean {
  return marker >= 0xc0 && marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc;
}

function readTables(marker: number, body: Uint8Array, tables: Tables, name: string): void {
  if (marker === 0xdb) readQuantisation(body, tables, name);
  if (marker === 0xc4) readHuffman(body, tables, name);
  if (marker === 0xdd) tables.restartEvery = ((body[0] ?? 0) << 8) | (body[1] ?? 0);
  if (marker === 0xee && Buffer.from(body.subarray(0, 5)).toString("latin1") === "Adobe") tables.transform = body[11];
}

function readQuantisation(body: Uint8Array, { quantisation }: Tables, name: string): void {
  for (let at = 0; at < body.length; ) {
    const [wide, id] = [(body[at] as number) >> 4, (body[at] as number) & 15];
    const bytes = wide === 0 ? 64 : 128;
    if (wide > 1 || at + 1 + bytes > body.length) damaged(name, "a table of quantisation is cut off");
    const table = new Uint16Array(64);
    for (let k = 0; k < 64; k++) {
      const from = at + 1 + k * (wide + 1);
      table[zigzag[k] as number] =
        wide === 0 ? (body[from] as number) : ((body[from] as number) << 8) | (body[from + 1] as number);
    }
    quantisation.set(id, table);
    at += 1 + bytes;
  }
}

function readHuffman(body: Uint8Array, { dc, ac }: Tables, name: string): void {
  for (let at = 0; at < body.length; ) {
    const [kind, id] = [(body[at] as number) >> 4, (body[at] as number) & 15];
    const counts = body.subarray(at + 1, at + 17);
    const total = counts.reduce((sum, count) => sum + count, 0);
    const symbols = body.subarray(at + 17, at + 17 + total);
    const table = counts.length === 16 && symbols.length === total ? huffmanTable(counts, symbols) : undefined;
    if (table === undefined || kind > 1) damaged(name, "a table of codes is wrong");
    (kind === 0 ? dc : ac).set(id, table);
    at += 17 + total;
  }
}

const kinds: Readonly<Record<number, string>> = {
  3: "lossless",
  5: "differential",
  6: "differential",
  7: "differential",
};

function frameOf(marker: number, body: Uint8Array, name: string): Frame {
  const kind = marker & 15;
  if (kind > 2)
    fail(
      "unimplemented",
      `${name} is ${kinds[kind] ?? "arithmetically coded"} JPEG: baseline and progressive are supported`,
    );
  const [depth = 0, h1 = 0, h0 = 0, w1 = 0, w0 = 0, count = 0] = body;
  if (depth !== 8) fail("unimplemented", `${name} has ${depth} bits a sample: 8 are supported`);
  const [width, height] = [(w1 << 8) | w0, (h1 << 8) | h0];
  checkSize(width, height, name);
  if (count !== 1 && count !== 3)
    fail("unimplemented", `${name} has ${count} colour components: grey and colour are supported`);
  if (body.length < 6 + 3 * count) damaged(name, "its header is cut off");
  const given = Array.from({ length: count }, (_, i) => {
    const [id, sampling, quantisation] = body.subarray(6 + 3 * i, 9 + 3 * i) as unknown as [number, number, number];
    return { id, across: sampling >> 4, down: sampling & 15, quantisation };
  });
  if (given.some(({ across, down }) => across < 1 || across > 4 || down < 1 || down > 4))
    damaged(name, "its sampling is unknown");
  const [most, tallest] = [Math.max(...given.map(({ across }) => across)), Math.max(...given.map(({ down }) => down))];
  const [unitsWide, unitsHigh] = [Math.ceil(width / (8 * most)), Math.ceil(height / (8 * tallest))];
  const components = given.map((each): Component => {
    const stride = unitsWide * each.across;
    return {
      ...each,
      blocksWide: Math.ceil(Math.ceil((width * each.across) / most) / 8),
      blocksHigh: Math.ceil(Math.ceil((height * each.down) / tallest) / 8),
      stride,
      coefficients: new Int16Array(64 * stride * unitsHigh * each.down),
    };
  });
  return { width, height, progressive: kind === 2, components, unitsWide, unitsHigh };
}

function scanOf(body: Uint8Array, frame: Frame, tables: Tables, name: string): Scan {
  const count = body[0] ?? 0;
  if (count < 1 || count > 4 || body.length < 4 + 2 * count) damaged(name, "a scan's header is cut off");
  const components = Array.from({ length: count }, (_, i) => {
    const [id, which] = [body[1 + 2 * i], body[2 + 2 * i] as number];
    const component =
      frame.components.find((each) => each.id === id) ?? damaged(name, "a scan has an unknown component");
    return { component, dc: tables.dc.get(which >> 4), ac: tables.ac.get(which & 15) };
  });
  const [first, last, bits] = body.subarray(1 + 2 * count, 4 + 2 * count) as unknown as [number, number, number];
  const band = frame.progressive ? [first, last] : [0, 63];
  if (first > last || last > 63 || (frame.progressive && first > 0 && count > 1))
    damaged(name, "a scan's band is wrong");
  if ((bits & 15) > 13 || bits >> 4 > 13) damaged(name, "a scan's bits are wrong");
  const { unitsWide, unitsHigh, progressive } = frame;
  const { restartEvery } = tables;
  const [before, low] = progressive ? [bits >> 4, bits & 15] : [0, 0];
  return {
    components,
    unitsWide,
    unitsHigh,
    restartEvery,
    progressive,
    first: band[0] as number,
    last: band[1] as number,
    before,
    low,
  };
}

/** cos((2 x + 1) u pi / 16) / 2, with the first row by sqrt(1/2): [u][x]. */
const cosines = Float32Array.from({ length: 64 }, (_, i) => {
  const [u, x] = [i >> 3, i & 7];
  return ((u === 0 ? Math.SQRT1_2 : 1) * Math.cos(((2 * x + 1) * u * Math.PI) / 16)) / 2;
});

/** The pixels of one component, as wide as its blocks. */
function planeOf({ stride, coefficients }: Component, table: Uint16Array): Uint8ClampedArray {
  const blocks = coefficients.length / 64;
  const plane = new Uint8ClampedArray(coefficients.length);
  const [values, rows] = [new Float32Array(64), new Float32Array(64)];
  for (let block = 0; block < blocks; block++) {
    for (let i = 0; i < 64; i++) values[i] = (coefficients[block * 64 + i] as number) * (table[i] as number);
    for (let v = 0; v < 8; v++)
      for (let x = 0; x < 8; x++) {
        let sum = 0;
        for (let u = 0; u < 8; u++) sum += (values[v * 8 + u] as number) * (cosines[u * 8 + x] as number);
        rows[v * 8 + x] = sum;
      }
    const start = Math.floor(block / stride) * 8 * stride * 8 + (block % stride) * 8;
    for (let y = 0; y < 8; y++)
      for (let x = 0; x < 8; x++) {
        let sum = 128;
        for (let v = 0; v < 8; v++) sum += (rows[v * 8 + x] as number) * (cosines[v * 8 + y] as number);
        plane[start + y * stride * 8 + x] = sum;
      }
  }
  return plane;
}

/** For each pixel the two samples it lies between, and the share of the second: colours are often stored at half the size. */
function placesBetween(size: number, step: number) {
  const last = Math.ceil(size * step) - 1;
  const [first, second, share] = [new Uint32Array(size), new Uint32Array(size), new Float32Array(size)];
  for (let i = 0; i < size; i++) {
    const at = Math.min(last, Math.max(0, (i + 0.5) * step - 0.5));
    first[i] = Math.floor(at);
    second[i] = Math.min(last, Math.floor(at) + 1);
    share[i] = at - Math.floor(at);
  }
  return { first, second, share };
}

function pictureOf({ width, height, components }: Frame, tables: Tables, name: string): Picture {
  const planes = components.map((component) => {
    const table =
      tables.quantisation.get(component.quantisation) ?? damaged(name, "a table of quantisation is missing");
    return planeOf(component, table);
  });
  const most = Math.max(...components.map(({ across }) => across));
  const tallest = Math.max(...components.map(({ down }) => down));
  const channels = components.length as 1 | 3;
  const data = new Uint8ClampedArray(width * height * channels);
  for (const [c, component] of components.entries()) {
    const plane = planes[c] as Uint8ClampedArray;
    const stride = component.stride * 8;
    const columns = placesBetween(width, component.across / most);
    const rows = placesBetween(height, component.down / tallest);
    for (let y = 0, to = c; y < height; y++) {
      const [above, below, v] = [
        (rows.first[y] as number) * stride,
        (rows.second[y] as number) * stride,
        rows.share[y] as number,
      ];
      for (let x = 0; x < width; x++, to += channels) {
        const [left, right, u] = [columns.first[x] as number, columns.second[x] as number, columns.share[x] as number];
        const upper = (plane[above + left] as number) * (1 - u) + (plane[above + right] as number) * u;
        const lower = (plane[below + left] as number) * (1 - u) + (plane[below + right] as number) * u;
        data[to] = upper * (1 - v) + lower * v;
      }
    }
  }
  if (channels === 3 && isYcc(components, tables)) toColours(data);
  return { width, height, channels, data: new Uint8Array(data.buffer) };
}

/** Unless somebody says that the components are red, green and blue themselves. */
function isYcc(components: readonly Component[], { transform }: Tables): boolean {
  if (transform !== undefined) return transform !== 0;
  return String.fromCharCode(...components.map(({ id }) => id)) !== "RGB";
}

function toColours(data: Uint8ClampedArray): void {
  for (let i = 0; i < data.length; i += 3) {
    const [y, b, r] = [data[i] as number, (data[i + 1] as number) - 128, (data[i + 2] as number) - 128];
    data[i] = y + 1.402 * r;
    data[i + 1] = y - 0.344136 * b - 0.714136 * r;
    data[i + 2] = y + 1.772 * b;
  }
}
