// The number types in which tensors travel, between the wire's enumeration and their names. What comes from outside may
// be neither.

import type { Shape } from "../core/tensor.ts";
import { DataType } from "../protocol/gen/dcnr/v1/common_pb.ts";

export type TravelType = "float32" | "float16" | "bfloat16" | "int32";

/** A tensor as it travels: in its edge's type, little-endian, row-major. */
export interface Content {
  readonly dtype: TravelType;
  readonly shape: Shape;
  readonly bytes: Uint8Array;
}

const dataTypes: Readonly<Record<TravelType, DataType>> = {
  float32: DataType.FLOAT32,
  float16: DataType.FLOAT16,
  bfloat16: DataType.BFLOAT16,
  int32: DataType.INT32,
};

export function toDataType(type: TravelType): DataType {
  return dataTypes[type];
}

export function fromDataType(dtype: DataType): TravelType | undefined {
  return (Object.keys(dataTypes) as TravelType[]).find((type) => dataTypes[type] === dtype);
}
