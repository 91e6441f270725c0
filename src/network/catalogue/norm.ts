// layernorm and rmsnorm, over the last axis.

import { elementCount } from "../../core/tensor.ts";
import { dimension, type KeySpecs } from "./config.ts";
import {
  agree,
  description,
  floatInput,
  lastAxis,
  type NodeType,
  one,
  oneOutput,
  ones,
  type Site,
  showShape,
  zeros,
} from "./node-type.ts";

function keys(epsilon: number): KeySpecs {
  return {
    dim: dimension("size of the last axis"),
    epsilon: { kind: "number", min: 0, max: 1, default: epsilon, aliases: ["eps"], meaning: "added to the variance" },
  };
}

function dimOf(site: Site): number {
  const { shape } = floatInput(site);
  return agree(site, "dim", lastAxis(shape), `the last axis of its input ${showShape(shape)}`);
}

export const layernorm: NodeType = {
  type: "layernorm",
  aliases: ["layer_norm"],
  meaning: "Layer norm over the last axis, with learned scale and shift.",
  keys: { ...keys(1e-5), bias: { kind: "flag", default: true, meaning: "a learned shift" } },
  inputs: one,
  outputs: oneOutput,
  root: (config) => ({ kind: "floats", ...(config.has("dim") && { shape: [config.number("dim")] }) }),
  describe: (site) => {
    const dim = dimOf(site);
    const input = site.inputs[0]!;
    const shift = site.config.flag("bias") ? [{ name: "bias", shape: [dim], initial: zeros }] : [];
    return description([input], {
      parameters: [{ name: "weight", shape: [dim], initial: ones }, ...shift],
      flops: 8 * elementCount(input.shape),
    });
  },
  build: (site) => {
    const affine = site.config.flag("bias") ? ["weight", "bias"] : ["weight"];
    const operands = [site.input(0), ...affine.map((name) => site.parameter(name))];
    return [site.graph.op("LayerNormalization", operands, { axis: -1, epsilon: site.config.number("epsilon") })];
  },
};

export const rmsnorm: NodeType = {
  type: "rmsnorm",
  aliases: ["rms_norm"],
  meaning: "Root-mean-square norm over the last axis, with a learned scale.",
  keys: keys(1e-6),
  inputs: one,
  outputs: oneOutput,
  root: layernorm.root!,
  describe: (site) => {
    const dim = dimOf(site);
    const input = site.inputs[0]!;
    return description([input], {
      parameters: [{ name: "weight", shape: [dim], initial: ones }],
      flops: 5 * elementCount(input.shape),
    });
  },
  build: (site) => [
    site.graph.op("RmsNorm", [site.input(0), site.parameter("weight")], { epsilon: site.config.number("epsilon") }),
  ],
};
