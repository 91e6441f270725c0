// From stored values to what networks compute with: floats become float32, whole numbers int32.

import { fail } from "../core/errors.ts";
import { fromBfloat16, fromFloat16 } from "../core/numbers/half.ts";
import type { Tensor } from "../core/tensor.ts";

export function toModelTensor(stored: Tensor, scale?: number): Tensor {
  if (scale !== undefined) return scaled(stored, scale);
  switch (stored.dtype) {
    case "float32":
    case "int32":
      return stored;
    case "float64":
      return { dtype: "float32", shape: stored.shape, data: Float32Array.from(stored.data as Float64Array) };
    case "float16":
      return { dtype: "float32", shape: stored.shape, data: fromFloat16(stored.data as Uint16Array) };
    case "bfloat16":
      return { dtype: "float32", shape: stored.shape, data: fromBfloat16(stored.data as Uint16Array) };
    case "uint8":
    case "bool":
      return { dtype: "int32", shape: stored.shape, data: Int32Array.from(stored.data as Uint8Array) };
    case "int64":
      return { dtype: "int32", shape: stored.shape, data: Int32Array.from(stored.data as BigInt64Array, narrow) };
  }
}

function scaled(stored: Tensor, scale: number): Tensor {
  const plain = toModelTensor(stored).data as Float32Array | Int32Array;
  return { dtype: "float32", shape: stored.shape, data: Float32Array.from(plain, (value) => value * scale) };
}

function narrow(value: bigint): number {
  if (value < -2147483648n || value > 2147483647n)
    fail("out_of_range", `the value ${value} does not fit 32 bits: networks take whole numbers as int32`);
  return Number(value);
}
