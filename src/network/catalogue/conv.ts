// conv2d and maxpool2d over [channels, height, width].

import { elementCount, type Shape } from "../../core/tensor.ts";
import { dimension } from "./config.ts";
import {
  agree,
  description,
  floatInput,
  floats,
  type NodeType,
  one,
  oneOutput,
  type ParameterSpec,
  refuse,
  type Site,
  showShape,
  uniform,
} from "./node-type.ts";

const kernelMax = 255;

function window(site: Site): { shape: Shape; kernel: number; stride: number; padding: number; size: [number, number] } {
  const { shape } = floatInput(site);
  if (shape.length !== 3) refuse(site, `input 0 must be [channels, height, width], found ${showShape(shape)}`);
  const kernel = site.config.number("kernel_size");
  const stride = site.config.optionalNumber("stride") ?? kernel;
  const padding = site.config.number("padding");
  const along = (size: number) => Math.floor((size + 2 * padding - kernel) / stride) + 1;
  const size: [number, number] = [along(shape[1]!), along(shape[2]!)];
  if (size[0] < 1 || size[1] < 1)
    refuse(site, `key "kernel_size" is ${kernel}, larger than its input ${showShape(shape)} with padding ${padding}`);
  return { shape, kernel, stride, padding, size };
}

export const conv2d: NodeType = {
  type: "conv2d",
  meaning: "Convolution: `[in_channels, height, width] -> [out_channels, height', width']`.",
  keys: {
    in_channels: dimension("channels of the input"),
    out_channels: dimension("channels of the output", { required: true }),
    kernel_size: { kind: "integer", min: 1, max: kernelMax, required: true, meaning: "height and width of a kernel" },
    stride: { kind: "integer", min: 1, max: kernelMax, default: 1, meaning: "step of the window" },
    padding: { kind: "integer", min: 0, max: kernelMax, default: 0, meaning: "zeros added on every side" },
    bias: { kind: "flag", default: true, meaning: "a learned number per output channel" },
  },
  inputs: one,
  outputs: oneOutput,
  root: () => ({ kind: "floats" }),
  describe: (site) => {
    const { shape, kernel, size } = window(site);
    const inChannels = agree(site, "in_channels", shape[0]!, `the first axis of its input ${showShape(shape)}`);
    const outChannels = site.config.number("out_channels");
    const fanIn = inChannels * kernel * kernel;
    const parameters: ParameterSpec[] = [
      { name: "weight", shape: [outChannels, inChannels, kernel, kernel], initial: uniform(fanIn) },
    ];
    if (site.config.flag("bias")) parameters.push({ name: "bias", shape: [outChannels], initial: uniform(fanIn) });
    return description([floats([outChannels, ...size])], {
      parameters,
      flops: 2 * fanIn * outChannels * size[0] * size[1],
      saved: outChannels * size[0] * size[1],
    });
  },
  build: (site) => {
    const { config } = site;
    const learned = config.flag("bias") ? ["weight", "bias"] : ["weight"];
    const operands = [site.input(0), ...learned.map((name) => site.parameter(name))];
    const [stride, padding] = [config.number("stride"), config.number("padding")];
    return [site.graph.op("Conv", operands, { strides: [stride, stride], pads: Array(4).fill(padding) })];
  },
};

export const maxpool2d: NodeType = {
  type: "maxpool2d",
  meaning: "The largest element of each window: `[channels, height, width] -> [channels, height', width']`.",
  keys: {
    kernel_size: { kind: "integer", min: 1, max: kernelMax, default: 2, meaning: "height and width of the window" },
    stride: { kind: "integer", min: 1, max: kernelMax, meaning: "step of the window; else kernel_size" },
    padding: {
      kind: "integer",
      min: 0,
      max: kernelMax,
      default: 0,
      meaning: "added on every side; below half the window",
    },
  },
  inputs: one,
  outputs: oneOutput,
  root: () => ({ kind: "floats" }),
  describe: (site) => {
    const { shape, kernel, padding, size } = window(site);
    if (padding * 2 > kernel) refuse(site, `key "padding" is ${padding}, more than half of kernel_size ${kernel}`);
    const output = [shape[0]!, ...size];
    return description([floats(output)], { flops: elementCount(output) * kernel * kernel });
  },
  build: (site) => {
    const { kernel, stride, padding } = window(site);
    const attributes = { kernel_shape: [kernel, kernel], strides: [stride, stride], pads: Array(4).fill(padding) };
    return [site.graph.op("MaxPool", [site.input(0)], attributes)];
  },
};
