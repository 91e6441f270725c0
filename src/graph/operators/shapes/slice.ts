// Slice {starts, ends, axes = 0.., steps = 1}: a range along axes. Negative positions count from the end.

import type { Shape } from "../../../core/tensor.ts";
import type { ValueInfo } from "../../model.ts";
import { checkArity, numbersOf, refuse, resolveAxis, stridesOf, walkIndex } from "../check.ts";
import type { Attributes, Operator, Value } from "../operator.ts";
import { gatherKernel } from "./copy.ts";

interface Range {
  readonly start: number;
  readonly step: number;
  readonly count: number;
}

function rangesOf(inputs: readonly Value[], attributes: Attributes): Range[] {
  const { shape } = inputs[0] as Value;
  const starts = numbersOf(attributes, "starts") ?? refuse("Slice", inputs, "needs starts");
  const ends = numbersOf(attributes, "ends") ?? refuse("Slice", inputs, "needs ends");
  const axes = numbersOf(attributes, "axes") ?? starts.map((_, axis) => axis);
  const steps = numbersOf(attributes, "steps");
  const ranges: Range[] = shape.map((count) => ({ start: 0, step: 1, count }));
  for (const [i, given] of axes.entries()) {
    const axis = resolveAxis("Slice", inputs, given, shape.length);
    const size = shape[axis] as number;
    const step = steps?.[i] ?? 1;
    if (step === 0) refuse("Slice", inputs, "a step must not be 0");
    const [low, high] = step > 0 ? [0, size] : [-1, size - 1];
    const place = (at: number) => Math.min(Math.max(at < 0 ? at + size : at, low), high);
    const [start, end] = [place(starts[i] as number), place(Math.max(ends[i] as number, step > 0 ? -size : -size - 1))];
    ranges[axis] = { start, step, count: Math.max(0, Math.ceil((end - start) / step)) };
  }
  return ranges;
}

export const slice: Operator = {
  type: "Slice",
  attributeInputs: ["starts", "ends", "axes", "steps"],
  cheap: true,
  infer(inputs, attributes) {
    checkArity("Slice", inputs, 1);
    return [{ dtype: (inputs[0] as Value).dtype, shape: rangesOf(inputs, attributes).map(({ count }) => count) }];
  },
  plan(inputs, outputs, attributes) {
    const strides = stridesOf((inputs[0] as ValueInfo).shape);
    const ranges = rangesOf(inputs, attributes);
    const first = ranges.reduce((sum, { start }, axis) => sum + start * (strides[axis] as number), 0);
    const steps = ranges.map(({ step }, axis) => step * (strides[axis] as number));
    return gatherKernel(walkIndex((outputs[0] as ValueInfo).shape, steps, first));
  },
  vjp({ builder, inputs, gradients, attributes }) {
    const [x] = inputs as [Value];
    const ranges = rangesOf(inputs, attributes);
    if (ranges.some(({ step }) => step !== 1))
      refuse("Slice", inputs, "has a derivative for steps of 1 only: use Split or Reshape instead");
    const before = ranges.map(({ start }) => start);
    const after = ranges.map(({ start, count }, axis) => ((x.shape as Shape)[axis] as number) - start - count);
    return [builder.op("Pad", [gradients[0] as Value], { pads: [...before, ...after] })];
  },
  flops: () => 0,
};
