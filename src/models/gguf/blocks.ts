// GGUF's ways to store numbers: floats, and blocks of small integers with a scale. Here they become float32.

import { fail } from "../../core/errors.ts";
import { fromBfloat16, fromFloat16 } from "../../core/half.ts";

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
  decode: (view, count) => Float32Array.from({ length: count }, (_, i) => read(view, i * bytes)),
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
  [14, blocks("Q6_K", 256, 210, decodeQ6K)],
]);

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
