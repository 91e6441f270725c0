// GGUF's ways to store numbers: floats, and blocks of small integers with a scale. Here they become float32.

import { fail } from "../../core/errors.ts";
import { fromBfloat16, fromFloat16 } from "../../core/numbers/half.ts";

export interface StoredAs {
  readonly name: string;
  /** Elements of a block, and the bytes that hold them. */
  readonly elements: number;
  readonly bytes: number;
  readonly decode: (bytes: DataView, count: number) => Float32Array;
}

const float = (name: string, bytes: number, read: (view: DataView, at: number) => number): StoredAs => ({
  name,
  elements: 1,
  bytes,
  decode: (view, count) => {
    const out = new Float32Array(count);
    for (let i = 0; i < count; i++) out[i] = read(view, i * bytes);
    return out;
  },
});

const half = new Uint16Array(1);
const single = new Float32Array(1);

function float16(view: DataView, at: number): number {
  half[0] = view.getUint16(at, true);
  return fromFloat16(half, single)[0] as number;
}

function bfloat16(view: DataView, at: number): number {
  half[0] = view.getUint16(at, true);
  return fromBfloat16(half, single)[0] as number;
}

const blocks = (
  name: string,
  elements: number,
  bytes: number,
  decodeBlock: (view: DataView, at: number, out: Float32Array, to: number) => void,
): StoredAs => ({
  name,
  elements,
  bytes,
  decode: (view, count) => {
    const out = new Float32Array(count);
    for (let block = 0; block * elements < count; block++) decodeBlock(view, block * bytes, out, block * elements);
    return out;
  },
});

/** Four bits each: the low ones of 16 bytes are the first half of a block of 32, the high ones the second. */
function fours(view: DataView, at: number, out: Float32Array, to: number, value: (four: number, i: number) => number) {
  for (let i = 0; i < 16; i++) {
    const byte = view.getUint8(at + i);
    out[to + i] = value(byte & 15, i);
    out[to + i + 16] = value(byte >> 4, i + 16);
  }
}

/** By the number that a file has for it. */
const known: ReadonlyMap<number, StoredAs> = new Map([
  [0, float("F32", 4, (view, at) => view.getFloat32(at, true))],
  [1, float("F16", 2, float16)],
  [28, float("F64", 8, (view, at) => view.getFloat64(at, true))],
  [30, float("BF16", 2, bfloat16)],
  [
    2,
    blocks("Q4_0", 32, 18, (view, at, out, to) => {
      const scale = float16(view, at);
      fours(view, at + 2, out, to, (four) => (four - 8) * scale);
    }),
  ],
  [
    3,
    blocks("Q4_1", 32, 20, (view, at, out, to) => {
      const [scale, least] = [float16(view, at), float16(view, at + 2)];
      fours(view, at + 4, out, to, (four) => four * scale + least);
    }),
  ],
  [
    6,
    blocks("Q5_0", 32, 22, (view, at, out, to) => {
      const [scale, fifths] = [float16(view, at), view.getUint32(at + 2, true)];
      fours(view, at + 6, out, to, (four, i) => ((four | (((fifths >>> i) & 1) << 4)) - 16) * scale);
    }),
  ],
  [
    7,
    blocks("Q5_1", 32, 24, (view, at, out, to) => {
      const [scale, least, fifths] = [float16(view, at), float16(view, at + 2), view.getUint32(at + 4, true)];
      fours(view, at + 8, out, to, (four, i) => (four | (((fifths >>> i) & 1) << 4)) * scale + least);
    }),
  ],
  [
    8,
    blocks("Q8_0", 32, 34, (view, at, out, to) => {
      const scale = float16(view, at);
      for (let i = 0; i < 32; i++) out[to + i] = view.getInt8(at + 2 + i) * scale;
    }),
  ],
  [10, blocks("Q2_K", 256, 84, decodeQ2K)],
  [11, blocks("Q3_K", 256, 110, decodeQ3K)],
  [12, blocks("Q4_K", 256, 144, decodeQ4K)],
  [13, blocks("Q5_K", 256, 176, decodeQ5K)],
  [14, blocks("Q6_K", 256, 210, decodeQ6K)],
  [
    20,
    blocks("IQ4_NL", 32, 18, (view, at, out, to) => {
      const scale = float16(view, at);
      fours(view, at + 2, out, to, (four) => (unevenFours[four] as number) * scale);
    }),
  ],
  [23, blocks("IQ4_XS", 256, 136, decodeIQ4XS)],
]);

/** Sixteen numbers that lie closer together around zero, where most weights are. */
const unevenFours = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/** Two bits each; for every 16 elements four bits of scale and four of what is taken off. */
function decodeQ2K(view: DataView, at: number, out: Float32Array, to: number): void {
  const [scale, least] = [float16(view, at + 80), float16(view, at + 82)];
  for (let i = 0; i < 256; i++) {
    const own = view.getUint8(at + (i >> 4));
    const two = (view.getUint8(at + 16 + (i >> 7) * 32 + (i & 31)) >> (((i >> 5) & 3) * 2)) & 3;
    out[to + i] = scale * (own & 15) * two - least * (own >> 4);
  }
}

/** Two bits each and a third in a mask; for every 16 elements a scale of six bits, its upper two elsewhere. */
function decodeQ3K(view: DataView, at: number, out: Float32Array, to: number): void {
  const scale = float16(view, at + 108);
  for (let i = 0; i < 256; i++) {
    const group = i >> 4;
    const low = (view.getUint8(at + 96 + (group & 7)) >> (group < 8 ? 0 : 4)) & 15;
    const high = (view.getUint8(at + 104 + (group & 3)) >> ((group >> 2) * 2)) & 3;
    const two = (view.getUint8(at + 32 + (i >> 7) * 32 + (i & 31)) >> (((i >> 5) & 3) * 2)) & 3;
    const third = (view.getUint8(at + (i & 31)) >> (i >> 5)) & 1;
    out[to + i] = scale * ((low | (high << 4)) - 32) * (two - (third === 1 ? 0 : 4));
  }
}

/** Of eight groups of 32: scale and what is taken off, six bits each in twelve bytes. */
function sixBits(view: DataView, at: number, group: number): readonly [scale: number, least: number] {
  const byte = (i: number) => view.getUint8(at + i);
  if (group < 4) return [byte(group) & 63, byte(group + 4) & 63];
  const both = byte(group + 4);
  return [(both & 15) | ((byte(group - 4) >> 6) << 4), (both >> 4) | ((byte(group) >> 6) << 4)];
}

/** The low four bits of 32 bytes are one group of 32, the high ones the next; `fifth` says a bit above them. */
function decodeSixBitGroups(
  view: DataView,
  at: number,
  values: number,
  out: Float32Array,
  to: number,
  fifth: (group: number, i: number) => number,
): void {
  const [scale, least] = [float16(view, at), float16(view, at + 2)];
  for (let group = 0; group < 8; group++) {
    const [own, off] = sixBits(view, at + 4, group);
    for (let i = 0; i < 32; i++) {
      const byte = view.getUint8(values + (group >> 1) * 32 + i);
      const four = group % 2 === 0 ? byte & 15 : byte >> 4;
      out[to + group * 32 + i] = scale * own * (four | (fifth(group, i) << 4)) - least * off;
    }
  }
}

function decodeQ4K(view: DataView, at: number, out: Float32Array, to: number): void {
  decodeSixBitGroups(view, at, at + 16, out, to, () => 0);
}

function decodeQ5K(view: DataView, at: number, out: Float32Array, to: number): void {
  decodeSixBitGroups(view, at, at + 48, out, to, (group, i) => (view.getUint8(at + 16 + i) >> group) & 1);
}

/** Uneven fours in groups of 32 with scales of six bits, the upper two in a word of their own. */
function decodeIQ4XS(view: DataView, at: number, out: Float32Array, to: number): void {
  const [scale, uppers] = [float16(view, at), view.getUint16(at + 2, true)];
  for (let group = 0; group < 8; group++) {
    const low = (view.getUint8(at + 4 + (group >> 1)) >> ((group % 2) * 4)) & 15;
    const own = scale * ((low | (((uppers >> (2 * group)) & 3) << 4)) - 32);
    fours(view, at + 8 + group * 16, out, to + group * 32, (four) => own * (unevenFours[four] as number));
  }
}

/** 128 bytes of low four bits, 64 of high two, 16 scales of 16 elements each, and a scale of the scales. */
function decodeQ6K(view: DataView, at: number, out: Float32Array, to: number): void {
  const scale = float16(view, at + 208);
  for (let part = 0; part < 2; part++)
    for (let i = 0; i < 32; i++) {
      const high = view.getUint8(at + 128 + part * 32 + i);
      for (let quarter = 0; quarter < 4; quarter++) {
        const low = view.getUint8(at + part * 64 + i + (quarter % 2) * 32);
        const bits = (quarter < 2 ? low & 15 : low >> 4) | (((high >> (2 * quarter)) & 3) << 4);
        const own = view.getInt8(at + 192 + part * 8 + quarter * 2 + (i >> 4));
        out[to + part * 128 + quarter * 32 + i] = scale * own * (bits - 32);
      }
    }
}

export function storedAs(type: number, tensor: string): StoredAs {
  return (
    known.get(type) ??
    fail(
      "unimplemented",
      `tensor "${tensor.slice(0, 80)}" is stored as GGUF's type ${type}: only ${[...known.values()].map(({ name }) => name).join(", ")} are read`,
    )
  );
}
