// The losses: cost, and the tied LM head with cross-entropy in one. A loss is the mean over the microbatch.

import { elementCount } from "../../core/tensor.ts";
import { dimension } from "./config.ts";
import { tiedOutDim } from "./linear.ts";
import {
  agree,
  type Description,
  description,
  floatInput,
  floats,
  lastAxis,
  type NodeType,
  one,
  oneOutput,
  refuse,
  type Site,
  showShape,
  tokens,
} from "./node-type.ts";

const precisions = ["float32", "fp32", "float16", "fp16", "bfloat16", "bf16"];

export const cost: NodeType = {
  type: "cost",
  aliases: ["loss"],
  meaning:
    "The loss: mean square (`mse`), or cross-entropy of probabilities (`ce`) or logits (`ce_logits`) over the last axis. Labels come from the dataset; for `mse` input 1 may bring the target instead.",
  keys: {
    cost_function: { kind: "choice", choices: ["mse", "ce", "ce_logits"], required: true, meaning: "which loss" },
    vocab_size: dimension("classes: size of the last axis; checked"),
    in_dim: dimension("accepted; the input's shape says it"),
    cost_precision: {
      kind: "choice",
      choices: precisions,
      default: "float32",
      meaning: "accepted; losses are float32",
    },
  },
  inputs: (config) => ({ min: 1, max: config.text("cost_function") === "mse" ? 2 : 1 }),
  outputs: oneOutput,
  cost: true,
  describe,
  build: (site) => {
    const prediction = site.input(0);
    switch (site.config.text("cost_function")) {
      case "mse":
        return [site.meanSquare(prediction, site.inputs.length > 1 ? site.input(1) : site.labels())];
      case "ce":
        return [site.crossEntropyOfProbabilities(prediction)];
      default:
        return [site.crossEntropy(prediction)];
    }
  },
};

function describe(site: Site): Description {
  const input = floatInput(site, 0, 0);
  if (site.config.text("cost_function") === "mse") {
    const target = site.inputs[1] === undefined ? undefined : floatInput(site, 1, 0);
    if (target !== undefined && showShape(target.shape) !== showShape(input.shape))
      refuse(
        site,
        `compares ${showShape(input.shape)} (input 0) with ${showShape(target.shape)} (input 1): the shapes must be equal`,
      );
    return description([floats([])], {
      flops: 3 * elementCount(input.shape),
      saved: elementCount(input.shape),
      ...(target === undefined && { labels: input }),
    });
  }
  if (input.shape.length < 1) refuse(site, "input 0 must have an axis of classes, found []");
  agree(site, "vocab_size", lastAxis(input.shape), `the last axis of its input ${showShape(input.shape)}`);
  return description([floats([])], {
    flops: 6 * elementCount(input.shape),
    saved: elementCount(input.shape),
    labels: tokens(labelShape(input.shape)),
  });
}

/** One class per position; a single position needs no axis. */
function labelShape(shape: readonly number[]): readonly number[] {
  return shape.slice(0, -1);
}

export const tiedLmHeadCe: NodeType = {
  type: "tied_lm_head_ce",
  aliases: ["fusedlmheadce"],
  meaning: "Tied LM head and cross-entropy in one: `x W^T` against the labels, the logits never kept whole.",
  keys: {
    in_dim: dimension("size of the input's last axis"),
    out_dim: dimension("entries of the vocabulary", {}),
    vocab_size: dimension("entries of the vocabulary; checked"),
    cost_precision: cost.keys.cost_precision!,
  },
  inputs: one,
  outputs: oneOutput,
  tiesWeights: true,
  cost: true,
  describe: (site) => {
    const input = floatInput(site);
    if (site.tie === undefined)
      refuse(site, `key "tie_weight_alias" is missing: it must name the matrix that an embedder publishes`);
    const inDim = agree(site, "in_dim", lastAxis(input.shape), `the last axis of its input ${showShape(input.shape)}`);
    const outDim = tiedOutDim(site, inDim);
    agree(site, "vocab_size", outDim, `the matrix published as "${site.tie.alias}"`);
    const rows = elementCount(input.shape) / inDim;
    return description([floats([])], {
      flops: 2 * rows * inDim * outDim + 6 * rows * outDim,
      saved: elementCount(input.shape),
      labels: tokens(input.shape.slice(0, -1)),
    });
  },
  build: (site) => [site.linearCrossEntropy(site.input(0), site.tied(), undefined, site.tie!.layout === "out_in")],
};
