// Nodes that move values without learning: broadcast, stack, add, reshape, flatten, and the text ends.

import { elementCount, type Shape } from "../../core/tensor.ts";
import { dimension, type KeySpec, type KeySpecs } from "./config.ts";
import {
  description,
  floatInput,
  floats,
  type NodeType,
  one,
  oneOutput,
  refuse,
  type Site,
  showShape,
} from "./node-type.ts";

const inputsMax = 4096;

const numInputs: KeySpec = { kind: "integer", min: 1, max: inputsMax, meaning: "how many there are; checked" };

/** As many inputs as are connected, or as `num_inputs` says. */
function countOf(min: number): NodeType["inputs"] {
  return (config) => {
    const count = config.optionalNumber("num_inputs");
    return count === undefined ? { min, max: inputsMax } : { min: count, max: count };
  };
}

export const broadcast: NodeType = {
  type: "broadcast",
  meaning: "One input to `num_outputs` output slots.",
  keys: { num_outputs: { kind: "integer", min: 1, max: inputsMax, default: 2, meaning: "output slots" } },
  inputs: one,
  outputs: (config) => config.number("num_outputs"),
  root: () => ({ kind: "floats" }),
  describe: (site) => description(Array.from({ length: site.config.number("num_outputs") }, () => site.inputs[0]!)),
  build: (site) => Array.from({ length: site.config.number("num_outputs") }, () => site.input(0)),
};

export const stack: NodeType = {
  type: "stack",
  aliases: ["concat"],
  meaning: "Joins its inputs, in slot order, along an existing axis; the batch axis does not count.",
  keys: {
    num_inputs: numInputs,

    axis: { kind: "integer", min: -8, max: 7, default: -1, meaning: "counted without the batch axis, or from the end" },
  },
  inputs: countOf(1),
  outputs: oneOutput,
  describe: (site) => {
    const first = floatInput(site);
    const axis = stackAxis(site, first.shape);
    let size = 0;
    for (const [slot] of site.inputs.entries()) {
      const { shape } = floatInput(site, slot);
      const fits = shape.length === first.shape.length && shape.every((n, i) => i === axis || n === first.shape[i]);
      if (!fits)
        refuse(
          site,
          `input ${slot} has the shape ${showShape(shape)}, which does not join ${showShape(first.shape)} along axis ${axis}`,
        );
      size += shape[axis]!;
    }
    return description([floats(first.shape.with(axis, size))]);
  },
  build: (site) => {
    const axis = stackAxis(site, site.inputs[0]!.shape);
    return [
      site.graph.op(
        "Concat",
        site.inputs.map((_, slot) => site.input(slot)),
        { axis: axis + 1 },
      ),
    ];
  },
};

function stackAxis(site: Site, shape: Shape): number {
  const axis = site.config.number("axis");
  const fromStart = axis < 0 ? axis + shape.length : axis;
  if (fromStart < 0 || fromStart >= shape.length)
    refuse(site, `key "axis" is ${axis}, but its inputs ${showShape(shape)} have ${shape.length} axes`);
  return fromStart;
}

export const add: NodeType = {
  type: "add",
  meaning: "Sum of its inputs, two or more of one shape.",
  keys: { num_inputs: numInputs },
  inputs: countOf(2),
  outputs: oneOutput,
  describe: (site) => {
    const first = floatInput(site, 0, 0);
    for (const [slot] of site.inputs.entries()) {
      const { shape } = floatInput(site, slot, 0);
      if (showShape(shape) !== showShape(first.shape))
        refuse(
          site,
          `adds ${showShape(first.shape)} (input 0) and ${showShape(shape)} (input ${slot}): the shapes must be equal`,
        );
    }
    return description([first], { flops: elementCount(first.shape) * (site.inputs.length - 1) });
  },
  build: (site) => [
    site.inputs.slice(1).reduce((sum, _, index) => site.graph.op("Add", [sum, site.input(index + 1)]), site.input(0)),
  ],
};

export const reshape: NodeType = {
  type: "reshape",
  meaning: "The same elements in another shape; the batch axis stays.",
  keys: {
    target_shape: { kind: "shape", free: true, required: true, meaning: "without the batch axis; one axis may be -1" },
  },
  inputs: one,
  outputs: oneOutput,
  root: () => ({ kind: "floats" }),
  describe: (site) => {
    const { shape } = floatInput(site, 0, 0);
    const target = site.config.shape("target_shape")!;
    const known = target.filter((size) => size !== -1).reduce((product, size) => product * size, 1);
    const resolved = target.map((size) => (size === -1 ? elementCount(shape) / known : size));
    if (elementCount(resolved) !== elementCount(shape) || !resolved.every(Number.isInteger))
      refuse(
        site,
        `key "target_shape" ${showShape(target)} does not hold the ${elementCount(shape)} elements of ${showShape(shape)}`,
      );
    return description([floats(resolved)]);
  },
  build: (site) => [site.graph.op("Reshape", [site.input(0)], { shape: site.outputShape(0) })],
};

export const flatten: NodeType = {
  type: "flatten",
  meaning: "All axes but the batch into one.",
  keys: {},
  inputs: one,
  outputs: oneOutput,
  root: () => ({ kind: "floats" }),
  describe: (site) => description([floats([elementCount(floatInput(site, 0, 0).shape)])]),
  build: (site) => [site.graph.op("Reshape", [site.input(0)], { shape: site.outputShape(0) })],
};

const textKeys: KeySpecs = {
  vocab_size: dimension("entries of the vocabulary"),
  pad_length: dimension("tokens in a sample"),
  vocab_path: { kind: "text", meaning: "name of the vocabulary (`dcnr vocab`)" },
  use_word_boundary_tokens: { kind: "flag", default: false, meaning: "how the vocabulary was trained" },
};

export const tokenizer: NodeType = {
  type: "tokenizer",
  meaning:
    "Says that text enters here. Datasets of text are tokenised before they reach the network, so it passes token ids on as they are.",
  keys: textKeys,
  inputs: one,
  outputs: oneOutput,
  root: (config) => {
    const length = config.optionalNumber("pad_length") ?? config.optionalNumber("seq_len");
    return { kind: "tokens", ...(length !== undefined && { shape: [length] }) };
  },
  describe: (site) => description([site.inputs[0]!]),
  build: (site) => [site.input(0)],
};

export const detokenizer: NodeType = {
  type: "detokenizer",
  meaning:
    "Says that text leaves here. It passes on what it gets; whoever reads the network's output turns it into text.",
  keys: textKeys,
  inputs: one,
  outputs: oneOutput,
  describe: (site) => description([site.inputs[0]!]),
  build: (site) => [site.input(0)],
};
