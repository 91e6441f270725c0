// What the reductions share: {axes: all when absent, keepdims = 1}, the shape rule and the walk over data.

import type { Shape, TensorData } from "../../../core/tensor.ts";
import type { ValueInfo } from "../../model.ts";
import { checkArity, numberOf, numbersOf, resolveAxis, stridesOf, walkIndex } from "../check.ts";
import type { Attributes, Builder, Kernel, Operator, ResultType, Value } from "../operator.ts";

function axesOf(type: string, input: Value, attributes: Attributes): number[] {
  const given = numbersOf(attributes, "axes");
  if (given === undefined || given.length === 0) return input.shape.map((_, axis) => axis);
  return given.map((axis) => resolveAxis(type, [input], axis, input.shape.length));
}

/** The reduced shape with size 1 on the reduced axes. */
export function keptShape(type: string, input: Value, attributes: Attributes): Shape {
  const axes = new Set(axesOf(type, input, attributes));
  return input.shape.map((size, axis) => (axes.has(axis) ? 1 : size));
}

function inferReduce(type: string, inputs: readonly Value[], attributes: Attributes): ResultType {
  checkArity(type, inputs, 1);
  const [x] = inputs as [Value];
  const axes = new Set(axesOf(type, x, attributes));
  const kept = keptShape(type, x, attributes);
  const shape = numberOf(attributes, "keepdims", 1) === 1 ? kept : kept.filter((_, axis) => !axes.has(axis));
  return { dtype: x.dtype, shape };
}

/** `combine` runs over the elements of each group in order; `finish` gets the group's size. */
function reduceKernel(
  input: ValueInfo,
  attributes: Attributes,
  type: string,
  [start, combine, finish]: readonly [
    number,
    (sum: number, x: number) => number,
    (sum: number, count: number) => number,
  ],
): Kernel {
  const axes = new Set(axesOf(type, input, attributes));
  const strides = stridesOf(input.shape);
  const pick = (inside: boolean) => input.shape.flatMap((_, axis) => (axes.has(axis) === inside ? [axis] : []));
  const index = (chosen: readonly number[]) =>
    walkIndex(
      chosen.map((axis) => input.shape[axis] as number),
      chosen.map((axis) => strides[axis] as number),
    );
  const [groups, members] = [index(pick(false)), index(pick(true))];
  return (data, results) => {
    const x = data[0] as TensorData;
    const y = results[0] as TensorData;
    for (let group = 0; group < groups.length; group++) {
      let sum = start;
      const from = groups[group] as number;
      for (let i = 0; i < members.length; i++) sum = combine(sum, Number(x[from + (members[i] as number)]));
      const result = finish(sum, members.length);
      y[group] = (y instanceof BigInt64Array ? BigInt(result) : result) as never;
    }
  };
}

/** The gradient with the reduced axes back as size 1, so that it broadcasts against the input. */
export function restoreAxes(
  builder: Builder,
  type: string,
  input: Value,
  attributes: Attributes,
  gradient: Value,
): Value {
  return builder.op("Reshape", [gradient], { shape: keptShape(type, input, attributes) });
}

export function reduction(
  type: string,
  rule: readonly [number, (sum: number, x: number) => number, (sum: number, count: number) => number],
  vjp: NonNullable<Operator["vjp"]>,
): Operator {
  return {
    type,
    attributeInputs: ["axes"],
    cheap: true,
    infer: (inputs, attributes) => [inferReduce(type, inputs, attributes)],
    plan: (inputs, _outputs, attributes) => reduceKernel(inputs[0] as ValueInfo, attributes, type, rule),
    vjp,
    flops: (inputs) => (inputs[0] as ValueInfo).shape.reduce((product, size) => product * size, 1),
  };
}
