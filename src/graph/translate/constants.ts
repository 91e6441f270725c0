// Operators of ONNX files that make numbers out of nothing but numbers known beforehand: constants, ranges, fillings.

import { fail } from "../../core/errors.ts";
import type { Tensor } from "../../core/tensor.ts";
import type { Attribute } from "../model.ts";
import type { OnnxNode } from "../onnx-parse.ts";
import { onnxTypes } from "../operators/elements/cast.ts";
import { allocateBounded, filledBy, placeOf, type Site, type Translations, tensorOf } from "./site.ts";

export function constantOf(node: OnnxNode): Tensor {
  const { value, value_float, value_floats, value_int, value_ints } = node.attributes as Record<
    string,
    Attribute | undefined
  >;
  if (value !== undefined && typeof value === "object" && "data" in value) return value;
  if (typeof value_float === "number") return tensorOf("float32", [], [value_float]);
  if (typeof value_int === "number") return tensorOf("int64", [], [value_int]);
  if (Array.isArray(value_ints)) return tensorOf("int64", [value_ints.length], value_ints as number[]);
  const floats = (value_floats ??
    fail("unimplemented", `${placeOf(node)} holds neither numbers nor a tensor`)) as number[];
  return tensorOf("float32", [floats.length], floats);
}

/** The value that a filling repeats: a tensor of one element, 0 where it is left out. */
function fillOf(site: Site): Tensor {
  const value = site.attribute("value") ?? tensorOf("float32", [1], [0]);
  const isOne = typeof value === "object" && "data" in value && value.data.length === 1;
  return isOne ? (value as Tensor) : site.refuse("its value must be a tensor of one element");
}

export const constants: Translations = {
  Constant: (site) => {
    site.ignore("value", "value_float", "value_floats", "value_int", "value_ints");
    return site.builder.constant(constantOf(site.node));
  },
  ConstantOfShape: (site) => {
    const shape = site.known(0, "shape") ?? site.refuse("lacks its shape");
    const value = fillOf(site);
    const result = allocateBounded(value.dtype, shape);
    (result.data as Float32Array).fill(value.data[0] as number);
    return site.builder.constant(result);
  },
  Range: (site) => {
    const [from, to, step] = [0, 1, 2].map((i) => site.known(i, "bounds")?.[0] ?? Number.NaN) as [
      number,
      number,
      number,
    ];
    const count = Math.max(0, Math.ceil((to - from) / step));
    return site.builder.constant(filledBy(site.input(0).dtype, [count], (i) => from + i * step));
  },
  EyeLike: (site) => {
    const { shape, dtype } = site.input(0);
    const [rows, columns] = shape as [number, number];
    const k = site.number("k", 0);
    const to = onnxTypes[site.number("dtype", 0)] ?? dtype;
    if (shape.length !== 2) site.refuse("takes a matrix");
    const isOne = (i: number) => i % columns === Math.floor(i / columns) + k;
    return site.builder.constant(filledBy(to, [rows, columns], (i) => (isOne(i) ? 1 : 0)));
  },
};
