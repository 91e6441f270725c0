// ONNX operators that imported models use only to compute constants: shapes, ranges, masks. They are carried out
// while the model is read and never become nodes.

import { fail } from "../core/errors.ts";
import { allocate, elementCount, type Shape, type Tensor, type TensorData } from "../core/tensor.ts";
import type { Attribute } from "./model.ts";

type Attributes = Readonly<Record<string, Attribute>>;

/** Larger constants would be no masks but an attack on memory. */
const elementsMax = 1 << 24;

export const constantOperators: Readonly<
  Record<string, (inputs: readonly Tensor[], attributes: Attributes) => Tensor>
> = {
  ConstantOfShape: ([shape], attributes) => {
    const sizes = Array.from((shape as Tensor).data as BigInt64Array, Number);
    const value = (attributes["value"] ?? allocate("float32", [1])) as Tensor;
    const result = allocateBounded(value.dtype, sizes);
    (result.data as Float32Array).fill(value.data[0] as number);
    return result;
  },
  Range: ([start, limit, delta]) => {
    const [from, to, step] = [start, limit, delta].map((tensor) => Number(tensor?.data[0])) as [number, number, number];
    const result = allocateBounded((start as Tensor).dtype, [Math.max(0, Math.ceil((to - from) / step))]);
    for (let i = 0; i < result.data.length; i++) put(result.data, i, from + i * step);
    return result;
  },
  Trilu: ([x, offset], attributes) => {
    const { dtype, shape, data } = x as Tensor;
    const [rows, columns] = shape.slice(-2) as [number, number];
    const k = Number(offset?.data[0] ?? 0);
    const upper = (attributes["upper"] ?? 1) === 1;
    const result = allocateBounded(dtype, shape);
    for (let i = 0; i < data.length; i++) {
      const distance = (i % columns) - (Math.floor(i / columns) % rows);
      if (upper ? distance >= k : distance <= k) result.data[i] = data[i] as never;
    }
    return result;
  },
  Not: ([x]) => ({ ...(x as Tensor), data: (x as Tensor & { data: Uint8Array }).data.map((value) => (value ? 0 : 1)) }),
};

export function int64s(numbers: Shape): Tensor {
  return { dtype: "int64", shape: [numbers.length], data: BigInt64Array.from(numbers, BigInt) };
}

function allocateBounded(dtype: Tensor["dtype"], shape: Shape): Tensor {
  if (shape.some((size) => !(size >= 0)) || elementCount(shape) > elementsMax)
    fail(
      "resource_exhausted",
      `the ONNX model computes a constant of shape [${shape}]: at most ${elementsMax} elements are allowed`,
    );
  return allocate(dtype, shape);
}

function put(data: TensorData, index: number, value: number): void {
  data[index] = (data instanceof BigInt64Array ? BigInt(value) : value) as never;
}
