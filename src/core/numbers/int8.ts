// Floats in eight bits for the wire: each row (the last axis) has a scale of its own, the largest size in it over 127, and
// its elements are whole multiples of that. A quarter of the bytes; rounding is by + - * / and floor alone, so that it gives
// the same bits everywhere. First all scales as float32, then all elements.

import { assert } from "../assert.ts";
import { elementCount, type Shape } from "../tensor.ts";

const most = 127;

function rowsOf(shape: Shape): number {
  return elementCount(shape.slice(0, -1));
}

export function int8Bytes(shape: Shape): number {
  return rowsOf(shape) * 4 + elementCount(shape);
}

export function toInt8(source: Float32Array, shape: Shape): Uint8Array {
  const rows = rowsOf(shape);
  const width = shape.at(-1) ?? 1;
  assert(source.length === rows * width, `${source.length} floats fill the shape [${shape}]`);
  const bytes = new Uint8Array(int8Bytes(shape));
  const scales = new Float32Array(bytes.buffer, 0, rows);
  const elements = new Int8Array(bytes.buffer, rows * 4);
  for (let row = 0; row < rows; row++) {
    const start = row * width;
    const scale = Math.fround(largest(source, start, start + width) / most);
    scales[row] = scale;
    // So small that no multiple of it can be told from zero.
    if (scale === 0) continue;
    for (let i = start; i < start + width; i++) {
      const rounded = Math.floor((source[i] as number) / scale + 0.5);
      elements[i] = rounded > most ? most : rounded < -most ? -most : rounded;
    }
  }
  return bytes;
}

function largest(source: Float32Array, start: number, end: number): number {
  let size = 0;
  for (let i = start; i < end; i++) {
    const value = source[i] as number;
    const own = value < 0 ? -value : value;
    if (own > size) size = own;
  }
  return size;
}

export function fromInt8(bytes: Uint8Array, shape: Shape): Float32Array {
  const rows = rowsOf(shape);
  const width = shape.at(-1) ?? 1;
  assert(bytes.byteLength === int8Bytes(shape), `${bytes.byteLength} bytes hold [${shape}] in int8`);
  const scales = scalesOf(bytes, shape);
  const elements = new Int8Array(bytes.buffer, bytes.byteOffset + rows * 4, rows * width);
  const values = new Float32Array(rows * width);
  for (let row = 0; row < rows; row++) {
    const scale = scales[row] as number;
    for (let i = row * width; i < (row + 1) * width; i++) values[i] = (elements[i] as number) * scale;
  }
  return values;
}

/** Of each row; whoever receives them looks for NaN and infinity here. */
export function scalesOf(bytes: Uint8Array, shape: Shape): Float32Array {
  const head = bytes.subarray(0, rowsOf(shape) * 4);
  // Not head.slice(): on a Buffer that would be another view of the same memory.
  const aligned = head.byteOffset % 4 === 0 ? head : new Uint8Array(head);
  return new Float32Array(aligned.buffer, aligned.byteOffset, rowsOf(shape));
}
