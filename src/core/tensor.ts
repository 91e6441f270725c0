// Tensors as plain data: a dtype, a shape and a flat typed array in row-major order.
// Half precisions exist only on the wire and in blobs (half.ts); arithmetic is float32 or float64.

import { assert } from "./assert.ts";

export type DType = "float32" | "float64" | "int32" | "int64" | "uint8" | "bool" | "float16" | "bfloat16";

export type TensorData = Float32Array | Float64Array | Int32Array | BigInt64Array | Uint8Array | Uint16Array;

export type Shape = readonly number[];

export interface Tensor {
  readonly dtype: DType;
  readonly shape: Shape;
  readonly data: TensorData;
}

export function elementBytes(dtype: DType): number {
  switch (dtype) {
    case "float64":
    case "int64":
      return 8;
    case "float32":
    case "int32":
      return 4;
    case "float16":
    case "bfloat16":
      return 2;
    case "uint8":
    case "bool":
      return 1;
  }
}

export function elementCount(shape: Shape): number {
  let count = 1;
  for (const size of shape) count *= size;
  return count;
}

export function tensorBytes(dtype: DType, shape: Shape): number {
  return elementBytes(dtype) * elementCount(shape);
}

/** The bytes behind a tensor, without copying. All supported machines are little-endian. */
export function bytesOf(tensor: Tensor): Uint8Array {
  const { data } = tensor;
  return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
}

/** A typed array over `bytes`; copies only when the offset is not aligned for the dtype. */
export function viewData(dtype: DType, bytes: Uint8Array): TensorData {
  const size = elementBytes(dtype);
  assert(bytes.byteLength % size === 0, `${bytes.byteLength} bytes hold whole ${dtype} elements`);
  // Not bytes.slice(): on a Buffer that would be another view of the same memory.
  const aligned = bytes.byteOffset % size === 0 ? bytes : new Uint8Array(bytes);
  const count = aligned.byteLength / size;
  const { buffer, byteOffset } = aligned;
  switch (dtype) {
    case "float32":
      return new Float32Array(buffer, byteOffset, count);
    case "float64":
      return new Float64Array(buffer, byteOffset, count);
    case "int32":
      return new Int32Array(buffer, byteOffset, count);
    case "int64":
      return new BigInt64Array(buffer, byteOffset, count);
    case "float16":
    case "bfloat16":
      return new Uint16Array(buffer, byteOffset, count);
    case "uint8":
    case "bool":
      return aligned;
  }
}

export function allocate(dtype: DType, shape: Shape): Tensor {
  return { dtype, shape, data: viewData(dtype, new Uint8Array(tensorBytes(dtype, shape))) };
}

export function float32(shape: Shape, values: ArrayLike<number>): Tensor {
  assert(values.length === elementCount(shape), `${values.length} values fill the shape [${shape}]`);
  return { dtype: "float32", shape, data: Float32Array.from(values) };
}

export function sameShape(a: Shape, b: Shape): boolean {
  return a.length === b.length && a.every((size, axis) => size === b[axis]);
}

/** NaN and infinities are the floats whose exponent bits are all ones. */
const exponentMask = 0x7f800000;

/** The index of the first NaN or infinity, or -1. */
export function firstNonFinite(data: TensorData): number {
  if (data instanceof Float32Array) {
    // Integer compares run at one element a cycle, several times faster than sums that wait for each other.
    const words = new Int32Array(data.buffer, data.byteOffset, data.length);
    for (let i = 0; i < words.length; i++) if (((words[i] as number) & exponentMask) === exponentMask) return i;
    return -1;
  }
  return data instanceof Float64Array ? data.findIndex((value) => !Number.isFinite(value)) : -1;
}

/** True unless bytes of this type hold NaN or infinity. */
export function areFinite(dtype: DType, bytes: Uint8Array): boolean {
  if (dtype !== "float16" && dtype !== "bfloat16") return firstNonFinite(viewData(dtype, bytes)) < 0;
  const exponent = dtype === "float16" ? 0x7c00 : 0x7f80;
  const words = viewData(dtype, bytes) as Uint16Array;
  for (let i = 0; i < words.length; i++) if (((words[i] as number) & exponent) === exponent) return false;
  return true;
}
