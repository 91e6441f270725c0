// scale and soft_cap: numbers that some families put between their layers; nothing is learned.

import { elementCount } from "../../core/tensor.ts";
import { description, floatInput, type NodeType, one, oneOutput } from "./node-type.ts";

export const scale: NodeType = {
  type: "scale",
  meaning: "`factor * x`.",
  keys: {
    factor: { kind: "number", min: -1e9, max: 1e9, required: true, meaning: "what its input is multiplied with" },
  },
  inputs: one,
  outputs: oneOutput,
  root: () => ({ kind: "floats" }),
  describe: (site) => {
    const input = floatInput(site, 0, 0);
    return description([input], { flops: elementCount(input.shape) });
  },
  build: (site) => [site.graph.op("Mul", [site.input(0), site.graph.scalar(site.config.number("factor"))])],
};

export const softCap: NodeType = {
  type: "soft_cap",
  meaning: "`cap * tanh(x / cap)`: almost `x` where it is small, never beyond the cap.",
  keys: { cap: { kind: "number", min: 1e-3, max: 1e9, required: true, meaning: "the bound" } },
  inputs: one,
  outputs: oneOutput,
  root: () => ({ kind: "floats" }),
  describe: (site) => {
    const input = floatInput(site, 0, 0);
    return description([input], { flops: 8 * elementCount(input.shape), saved: elementCount(input.shape) });
  },
  build: (site) => {
    const { graph } = site;
    const cap = site.config.number("cap");
    const bend = graph.op("Tanh", [graph.op("Mul", [site.input(0), graph.scalar(1 / cap)])]);
    return [graph.op("Mul", [bend, graph.scalar(cap)])];
  },
};
