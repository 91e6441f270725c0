// float16 and bfloat16 as 16-bit words, for the wire and for blobs. Rounding is to nearest, ties to even;
// values too large become infinity, which the receiver refuses like any other.

import { assert } from "../assert.ts";

const single = new Float32Array(1);
const singleBits = new Uint32Array(single.buffer);

function bitsOf(source: Float32Array): Uint32Array {
  return new Uint32Array(source.buffer, source.byteOffset, source.length);
}

function halfOf(word: number): number {
  const sign = (word >>> 16) & 0x8000;
  const magnitude = word & 0x7fffffff;
  if (magnitude >= 0x7f800000) return sign | (magnitude > 0x7f800000 ? 0x7e00 : 0x7c00);
  // 65520 and more round to infinity.
  if (magnitude >= 0x477ff000) return sign | 0x7c00;
  if (magnitude >= 0x38800000) {
    const rounded = magnitude + 0xfff + ((magnitude >>> 13) & 1);
    return sign | ((rounded - 0x38000000) >>> 13);
  }
  // At most half of the smallest subnormal rounds to zero; the tie goes to even, which is zero.
  if (magnitude <= 0x33000000) return sign;
  const shift = 126 - (magnitude >>> 23);
  const significand = (magnitude & 0x7fffff) | 0x800000;
  const kept = significand >>> shift;
  const rest = significand & ((1 << shift) - 1);
  const tie = 1 << (shift - 1);
  return sign | (rest > tie || (rest === tie && (kept & 1) === 1) ? kept + 1 : kept);
}

function brainOf(word: number): number {
  if ((word & 0x7fffffff) > 0x7f800000) return (word >>> 16) | 0x40;
  return (((word >>> 0) + 0x7fff + ((word >>> 16) & 1)) >>> 16) & 0xffff;
}

let halfTable: Float32Array | undefined;

function singleOfHalf(half: number): number {
  const exponent = (half >>> 10) & 31;
  const fraction = half & 1023;
  const size =
    exponent === 0
      ? fraction * 2 ** -24
      : exponent === 31
        ? fraction === 0
          ? Number.POSITIVE_INFINITY
          : Number.NaN
        : (1024 + fraction) * powersOfTwo[exponent]!;
  return half & 0x8000 ? -size : size;
}

const powersOfTwo = Array.from({ length: 31 }, (_, exponent) => 2 ** (exponent - 25));

export function toFloat16(source: Float32Array, out = new Uint16Array(source.length)): Uint16Array {
  assert(out.length === source.length, "as many halves as floats");
  const words = bitsOf(source);
  for (let i = 0; i < words.length; i++) out[i] = halfOf(words[i] as number);
  return out;
}

export function fromFloat16(source: Uint16Array, out = new Float32Array(source.length)): Float32Array {
  assert(out.length === source.length, "as many floats as halves");
  halfTable ??= Float32Array.from({ length: 65536 }, (_, half) => singleOfHalf(half));
  for (let i = 0; i < source.length; i++) out[i] = halfTable[source[i] as number] as number;
  return out;
}

export function toBfloat16(source: Float32Array, out = new Uint16Array(source.length)): Uint16Array {
  assert(out.length === source.length, "as many halves as floats");
  const words = bitsOf(source);
  for (let i = 0; i < words.length; i++) out[i] = brainOf(words[i] as number);
  return out;
}

export function fromBfloat16(source: Uint16Array, out = new Float32Array(source.length)): Float32Array {
  assert(out.length === source.length, "as many floats as halves");
  const words = bitsOf(out);
  for (let i = 0; i < source.length; i++) words[i] = (source[i] as number) << 16;
  return out;
}

/** The nearest float16, as a number. */
export function roundToFloat16(value: number): number {
  single[0] = value;
  return singleOfHalf(halfOf(singleBits[0] as number));
}

/** The nearest bfloat16, as a number. */
export function roundToBfloat16(value: number): number {
  single[0] = value;
  singleBits[0] = brainOf(singleBits[0] as number) << 16;
  return single[0];
}
