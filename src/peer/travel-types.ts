// The number types in which tensors travel, between the wire's enumeration and their names. What comes from outside may
// be neither.

import type { WireType } from "../core/numbers/wire-types.ts";
import type { Shape } from "../core/tensor.ts";
import { DataType } from "../protocol/gen/dcnr/v1/common_pb.ts";

/** A tensor as it travels: in its edge's type, little-endian, row-major. */
export interface Content {
  readonly dtype: WireType;
  readonly shape: Shape;
  readonly bytes: Uint8Array;
}

const dataTypes: Readonly<Record<WireType, DataType>> = {
  float32: DataType.FLOAT32,
  float16: DataType.FLOAT16,
  bfloat16: DataType.BFLOAT16,
  int8: DataType.INT8,
  int32: DataType.INT32,
};

export function toDataType(type: WireType): DataType {
  return dataTypes[type];
}

export function fromDataType(dtype: DataType): WireType | undefined {
  return (Object.keys(dataTypes) as WireType[]).find((type) => dataTypes[type] === dtype);
}
