// dropout and mask: the nodes that meet chance. Their draws come in as graph inputs that the VNode fills
// from the counter-based generator, so that a graph itself is a pure function.

import { elementCount, float32 } from "../../core/tensor.ts";
import { description, floatInput, type NodeType, one, oneOutput, refuse, showShape } from "./node-type.ts";

export const dropout: NodeType = {
  type: "dropout",
  meaning: "Drops elements at random in training and scales the rest by 1 / (1 - rate); else nothing.",
  keys: { rate: { kind: "number", min: 0, max: 1, below: true, default: 0.1, meaning: "share that is dropped" } },
  inputs: one,
  outputs: oneOutput,
  root: () => ({ kind: "floats" }),
  describe: (site) => {
    const input = floatInput(site, 0, 0);
    const rate = site.config.number("rate");
    const chance = { name: "keep", shape: input.shape, rate, keepValue: 1 / (1 - rate), dropValue: 0 };
    return description([input], {
      chances: rate > 0 ? [chance] : [],
      flops: elementCount(input.shape),
    });
  },
  build: (site) => {
    const keep = site.chance("keep");
    return [keep === undefined ? site.input(0) : site.graph.op("ChanceMask", [site.input(0), keep])];
  },
};

export const mask: NodeType = {
  type: "mask",
  meaning: "Sets attention scores to `mask_val`: above the diagonal of the last two axes, and at random in training.",
  keys: {
    causal: { kind: "flag", default: true, meaning: "masks what lies above the diagonal of the last two axes" },
    mask_val: { kind: "number", min: -1e30, max: 1e30, default: -1e9, meaning: "what masked elements become" },
    random_prob: {
      kind: "number",
      min: 0,
      max: 1,
      below: true,
      default: 0,
      meaning: "share masked at random, in training",
    },
    seed: { kind: "integer", min: 0, max: 2 ** 53 - 1, meaning: "accepted; chance comes from the session's seed" },
  },
  inputs: one,
  outputs: oneOutput,
  root: () => ({ kind: "floats" }),
  describe: (site) => {
    const { config } = site;
    const input = floatInput(site, 0, config.flag("causal") ? 2 : 0);
    const rate = config.number("random_prob");
    if (config.flag("causal") && input.shape.at(-1) !== input.shape.at(-2))
      refuse(site, `a causal mask needs two equal last axes, found ${showShape(input.shape)}`);
    const chance = { name: "keep", shape: input.shape, rate, keepValue: 1, dropValue: 0 };
    return description([input], { chances: rate > 0 ? [chance] : [], flops: 3 * elementCount(input.shape) });
  },
  build: (site) => {
    const { graph, config } = site;
    const value = config.number("mask_val");
    let result = site.input(0);
    if (config.flag("causal")) {
      const size = result.shape.at(-1)!;
      const keep = new Float32Array(size * size);
      const fill = new Float32Array(size * size);
      for (let row = 0; row < size; row++)
        for (let column = 0; column < size; column++) {
          if (column <= row) keep[row * size + column] = 1;
          else fill[row * size + column] = value;
        }
      const kept = graph.op("ChanceMask", [result, graph.constant(float32([size, size], keep))]);
      result = graph.op("Add", [kept, graph.constant(float32([size, size], fill))]);
    }
    const keep = site.chance("keep");
    if (keep === undefined) return [result];
    // keep is 1 or 0, so keep * (-value) + value is 0 or the mask value.
    const fill = graph.op("Add", [graph.op("Mul", [keep, graph.scalar(-value)]), graph.scalar(value)]);
    return [graph.op("Add", [graph.op("ChanceMask", [result, keep]), fill])];
  },
};
