// The number types in which tensors travel between machines. Engines know other ones: what travels as int8 or in half
// precision is float32 before and after.

import { areFinite, firstNonFinite, type Shape, tensorBytes } from "../tensor.ts";
import { int8Bytes, scalesOf } from "./int8.ts";

export type WireType = "float32" | "float16" | "bfloat16" | "int8" | "int32";

export function wireBytes(type: WireType, shape: Shape): number {
  return type === "int8" ? int8Bytes(shape) : tensorBytes(type, shape);
}

/** True unless the bytes hold NaN or infinity, or values so large that they become it. */
export function areFiniteOnWire(type: WireType, shape: Shape, bytes: Uint8Array): boolean {
  if (type !== "int8") return areFinite(type, bytes);
  const scales = scalesOf(bytes, shape);
  return firstNonFinite(scales) < 0 && scales.every((scale) => scale >= 0 && scale <= scaleMax);
}

/** The largest that -128 times still is a float. */
const scaleMax = 2 ** 120;
