// What convolutions and pools share: {kernel_shape, strides, pads, dilations, auto_pad} of two spatial axes.

import type { Shape } from "../../../core/tensor.ts";
import { numberOf, numbersOf, refuse, stringOf } from "../check.ts";
import type { Attributes, Value } from "../operator.ts";

export interface Window {
  readonly kernel: readonly [number, number];
  readonly strides: readonly [number, number];
  /** top, left, bottom, right */
  readonly pads: readonly [number, number, number, number];
  readonly dilations: readonly [number, number];
  readonly output: readonly [number, number];
}

type Pair = readonly [number, number];

export function windowOf(
  type: string,
  inputs: readonly Value[],
  attributes: Attributes,
  kernelOfWeight?: Shape,
): Window {
  const [x] = inputs as [Value];
  if (x.shape.length !== 4) refuse(type, inputs, "takes images as [batch, channels, height, width]");
  const kernel = (kernelOfWeight ??
    numbersOf(attributes, "kernel_shape") ??
    refuse(type, inputs, "needs kernel_shape")) as Pair;
  const strides = (numbersOf(attributes, "strides") ?? [1, 1]) as Pair;
  const dilations = (numbersOf(attributes, "dilations") ?? [1, 1]) as Pair;
  const size = x.shape.slice(2) as unknown as Pair;
  if (kernel.length !== 2 || strides.length !== 2 || dilations.length !== 2)
    refuse(type, inputs, "needs kernel, strides and dilations of two axes");
  if (numberOf(attributes, "ceil_mode", 0) !== 0) refuse(type, inputs, "ceil_mode is not supported: pad instead");
  const pads = padsOf(type, inputs, attributes, { kernel, strides, dilations, size });
  const output = [0, 1].map((axis) => {
    const reach = ((kernel[axis] as number) - 1) * (dilations[axis] as number) + 1;
    const room = (size[axis] as number) + (pads[axis] as number) + (pads[axis + 2] as number) - reach;
    return Math.floor(room / (strides[axis] as number)) + 1;
  }) as unknown as Pair;
  if (output.some((count) => count < 1)) refuse(type, inputs, `the kernel [${kernel}] is larger than the padded image`);
  return { kernel, strides, pads, dilations, output };
}

function padsOf(
  type: string,
  inputs: readonly Value[],
  attributes: Attributes,
  { kernel, strides, dilations, size }: { kernel: Pair; strides: Pair; dilations: Pair; size: Pair },
): Window["pads"] {
  const mode = stringOf(attributes, "auto_pad", "NOTSET");
  if (mode === "NOTSET") {
    const pads = numbersOf(attributes, "pads") ?? [0, 0, 0, 0];
    if (pads.length !== 4 || pads.some((pad) => pad < 0))
      refuse(type, inputs, `needs four pads of 0 or more, got [${pads}]`);
    return pads as unknown as Window["pads"];
  }
  if (mode === "VALID") return [0, 0, 0, 0];
  const total = [0, 1].map((axis) => {
    const stride = strides[axis] as number;
    const reach = ((kernel[axis] as number) - 1) * (dilations[axis] as number) + 1;
    return Math.max(0, (Math.ceil((size[axis] as number) / stride) - 1) * stride + reach - (size[axis] as number));
  }) as [number, number];
  const [small, large] = [total.map((pad) => Math.floor(pad / 2)), total.map((pad) => Math.ceil(pad / 2))] as [
    number[],
    number[],
  ];
  if (mode === "SAME_UPPER") return [...small, ...large] as unknown as Window["pads"];
  if (mode === "SAME_LOWER") return [...large, ...small] as unknown as Window["pads"];
  return refuse(type, inputs, `auto_pad "${mode}" is unknown`);
}

/** Calls back for every tap of the window at output (row, column) that lies inside the image. */
export function eachTap(
  window: Window,
  [height, width]: Pair,
  [row, column]: Pair,
  visit: (y: number, x: number, tap: number) => void,
): void {
  const { kernel, strides, pads, dilations } = window;
  for (let i = 0; i < kernel[0]; i++) {
    const y = row * strides[0] - pads[0] + i * dilations[0];
    if (y < 0 || y >= height) continue;
    for (let j = 0; j < kernel[1]; j++) {
      const x = column * strides[1] - pads[1] + j * dilations[1];
      if (x >= 0 && x < width) visit(y, x, i * kernel[1] + j);
    }
  }
}
