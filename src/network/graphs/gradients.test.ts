// Every node type against finite differences: the derived gradient of a small network around the node equals the
// slope of its loss, in float64 on the reference engine.

import assert from "node:assert/strict";
import { test } from "node:test";
import { openReferenceEngine } from "../../engine/reference.ts";
import { nodeTypes } from "../catalogue/registry.ts";
import { compileText } from "../compile.ts";
import { LocalTrainer, randomSample } from "./trainer.testing.ts";

/** Nodes between a linear layer over [3, 4] and a mean-square loss; `first` replaces the linear layer. */
interface Case {
  readonly covers: readonly string[];
  readonly first?: string;
  readonly nodes: readonly string[];
  readonly edges?: readonly string[];
  readonly loss?: string;
}

const chain = (type: string, config = ""): Case => ({
  covers: [type],
  nodes: [`{ id: node, type: ${type}, config: { ${config} } }`],
});

const linear = "{ id: first, type: linear, config: { in_dim: 4, out_dim: 4 }, input_shapes: [[3, 4]] }";
const image =
  "{ id: first, type: conv2d, config: { out_channels: 2, kernel_size: 3, stride: 2, padding: 1 }, input_shapes: [[2, 5, 5]] }";
const tokens =
  "{ id: first, type: embedder, config: { vocab_size: 7, dim: 4, seq_len: 3, shared_weight_alias: table } }";

const cases: Readonly<Record<string, Case>> = {
  linear: { covers: ["linear"], nodes: ["{ id: node, type: linear, config: { out_dim: 5, bias: false } }"] },
  layernorm: chain("layernorm"),
  rmsnorm: chain("rmsnorm"),
  "one head": chain("attention_head", "head_dim: 2, position_encoding: rope"),
  attention: chain("attention", "num_heads: 2, position_encoding: rope, bias: true"),
  "grouped-query attention": chain("attention", "num_heads: 4, num_kv_heads: 2, head_dim: 2"),
  "attention that sees everything": chain("attention", "num_heads: 2, causal: false, output_projection: false"),
  "attention with norms of each head's queries and keys": chain("attention", "num_heads: 2, qk_norm: head"),
  "attention with layer norms of queries and keys": chain("attention", "num_heads: 2, qk_norm: head_layernorm"),
  "attention with norms over all heads": chain("attention", "num_heads: 2, num_kv_heads: 1, qk_norm: flat"),
  "attention with a window, a cap and a scale": chain(
    "attention",
    "num_heads: 2, window: 2, score_cap: 0.7, score_scale: 1.3",
  ),
  "attention with alibi": chain("attention", "num_heads: 2, position_encoding: alibi, alibi_scale: 0.5"),
  "attention that rotates a part": chain(
    "attention",
    "num_heads: 1, position_encoding: rope, rope_dims: 2, rope_amplitude: 1.2, rope_scaling: factors, rope_factors: [1.5]",
  ),
  relu: chain("relu"),
  gelu: chain("gelu"),
  "approximate gelu": chain("gelu", "approximate: tanh"),
  silu: chain("silu"),
  tanh: chain("tanh"),
  sigmoid: chain("sigmoid"),
  softmax: chain("softmax"),
  swiglu: chain("swiglu"),
  positions: chain("positions"),
  geglu: chain("geglu"),
  "approximate geglu": chain("geglu", "approximate: tanh"),
  scale: chain("scale", "factor: -0.7"),
  "soft cap": chain("soft_cap", "cap: 0.8"),
  "a mixture of experts": {
    covers: ["route", "weigh"],
    nodes: [
      "{ id: fork, type: broadcast, config: { num_outputs: 3 } }",
      "{ id: scores, type: linear, config: { out_dim: 3, bias: false } }",
      "{ id: shares, type: route, config: { top_k: 2 } }",
      "{ id: share_fork, type: broadcast }",
      "{ id: expert_0, type: tanh }",
      "{ id: expert_2, type: sigmoid }",
      "{ id: weighed_0, type: weigh, config: { index: 0 } }",
      "{ id: weighed_2, type: weigh, config: { index: 2 } }",
      "{ id: node, type: add }",
    ],
    edges: [
      "{ from: first, to: fork }",
      "{ from: fork, to: scores }",
      "{ from: scores, to: shares }",
      "{ from: shares, to: share_fork }",
      "{ from: fork, from_slot: 1, to: expert_0 }",
      "{ from: fork, from_slot: 2, to: expert_2 }",
      "{ from: expert_0, to: weighed_0 }",
      "{ from: expert_2, to: weighed_2 }",
      "{ from: share_fork, to: weighed_0, to_slot: 1 }",
      "{ from: share_fork, from_slot: 1, to: weighed_2, to_slot: 1 }",
      "{ from: weighed_0, to: node }",
      "{ from: weighed_2, to: node, to_slot: 1 }",
    ],
  },
  dropout: chain("dropout", "rate: 0.4"),
  mask: {
    covers: ["mask"],
    first: "{ id: first, type: linear, config: { in_dim: 4, out_dim: 3 }, input_shapes: [[3, 4]] }",
    nodes: ["{ id: node, type: mask, config: { mask_val: -2, random_prob: 0.3, seed: 1 } }"],
  },
  "broadcast, stack and add": {
    covers: ["broadcast", "stack", "add"],
    nodes: [
      "{ id: fork, type: broadcast, config: { num_outputs: 3 } }",
      "{ id: bend, type: tanh }",
      "{ id: sum, type: add }",
      "{ id: node, type: stack, config: { axis: 0 } }",
    ],
    edges: [
      "{ from: first, to: fork }",
      "{ from: fork, to: bend }",
      "{ from: bend, to: sum }",
      "{ from: fork, from_slot: 1, to: sum, to_slot: 1 }",
      "{ from: sum, to: node }",
      "{ from: fork, from_slot: 2, to: node, to_slot: 1 }",
    ],
  },
  reshape: chain("reshape", 'target_shape: "2,-1"'),
  flatten: chain("flatten"),
  conv2d: {
    covers: ["conv2d"],
    first: image,
    nodes: ["{ id: node, type: conv2d, config: { out_channels: 3, kernel_size: 2 } }"],
  },
  maxpool2d: {
    covers: ["maxpool2d"],
    first: image,
    nodes: ["{ id: node, type: maxpool2d, config: { kernel_size: 2, stride: 1 } }"],
  },
  embedder: {
    covers: ["embedder"],
    first: tokens.replace("seq_len: 3", "seq_len: 3, position_encoding: learned"),
    nodes: ["{ id: node, type: tanh }"],
  },
  "rotated embedder": {
    covers: ["embedder"],
    first: tokens.replace("seq_len: 3", "seq_len: 3, position_encoding: rope"),
    nodes: ["{ id: node, type: tanh }"],
  },
  tokenizer: {
    covers: ["tokenizer", "detokenizer"],
    first: "{ id: first, type: tokenizer, config: { pad_length: 3 } }",
    nodes: ["{ id: table, type: embedder, config: { vocab_size: 7, dim: 4 } }", "{ id: node, type: detokenizer }"],
  },
  "cross-entropy of logits": {
    ...chain("tanh"),
    covers: ["cost"],
    loss: "{ id: loss, type: cost, config: { cost_function: ce_logits } }",
  },
  "cross-entropy of probabilities": {
    ...chain("softmax"),
    loss: "{ id: loss, type: cost, config: { cost_function: ce } }",
  },
  "a tied head that is fused with its cost": {
    covers: ["linear"],
    first: tokens,
    nodes: ["{ id: bend, type: tanh }", "{ id: node, type: linear, config: { tie_weight_alias: table } }"],
    loss: "{ id: loss, type: cost, config: { cost_function: ce_logits } }",
  },
  "a tied head inside its table's VNode": {
    covers: ["linear"],
    first: tokens.replace("config: {", "config: { colocate_group: all,"),
    nodes: ["{ id: node, type: linear, config: { tie_weight_alias: table, colocate_group: all, bias: true } }"],
    loss: "{ id: loss, type: cost, config: { cost_function: ce_logits } }",
  },
  "tied head and cross-entropy in one": {
    covers: ["tied_lm_head_ce"],
    first: tokens,
    nodes: ["{ id: node, type: tanh }"],
    loss: "{ id: loss, type: tied_lm_head_ce, config: { tie_weight_alias: table } }",
  },
};

function yaml({ first = linear, nodes, edges, loss }: Case): string {
  const idOf = (node: string) => /id: (\w+)/.exec(node)![1]!;
  const ids = [first, ...nodes].map(idOf);
  const inner = edges ?? ids.slice(1).map((to, i) => `{ from: ${ids[i]}, to: ${to} }`);
  const judge = loss ?? "{ id: loss, type: cost, config: { cost_function: mse } }";
  return `nodes: [${[first, ...nodes, judge].join(", ")}]\nedges: [${[...inner, "{ from: node, to: loss }"].join(", ")}]`;
}

for (const [name, each] of Object.entries(cases))
  test(`the gradient of ${name} is the slope of the loss`, async () => {
    const plan = compileText(yaml(each));
    const engine = openReferenceEngine({ dtype: "float64" });
    const trainer = await LocalTrainer.open({ engine, plan, microbatch: 2, double: true, seed: 3 });
    // Larger weights than initial ones: embeddings near zero would hide errors.
    for (const values of trainer.weights.values())
      for (let i = 0; i < values.length; i++) values[i]! += 0.3 * Math.sin(i + 1);
    const samples = [randomSample(plan, 2, name)];
    await trainer.differentiate(samples);
    const gradients = new Map([...trainer.gradients].map(([key, values]) => [key, values.slice()]));
    assert.ok(gradients.size > 0, "there is something to learn");
    for (const [parameter, values] of trainer.weights)
      for (let i = 0; i < values.length; i += Math.max(1, Math.floor(values.length / 8))) {
        const slope = await slopeAt(trainer, samples, values, i);
        const found = gradients.get(parameter)![i]!;
        assert.ok(
          Math.abs(found - slope) < 1e-6 * (1 + Math.abs(slope)),
          `${parameter}[${i}]: ${found} is not ${slope}`,
        );
      }
  });

async function slopeAt(
  trainer: LocalTrainer,
  samples: Parameters<LocalTrainer["differentiate"]>[0],
  values: Float32Array | Float64Array,
  index: number,
): Promise<number> {
  const step = 1e-5;
  const at = values[index]!;
  values[index] = at + step;
  const above = await trainer.differentiate(samples);
  values[index] = at - step;
  const below = await trainer.differentiate(samples);
  values[index] = at;
  return (above - below) / (2 * step);
}

test("every node type of the catalogue has a case", () => {
  const covered = new Set(Object.values(cases).flatMap(({ covers }) => covers));
  // Imported graphs are checked with the importer.
  assert.deepEqual(
    nodeTypes.map(({ type }) => type).filter((type) => !covered.has(type) && type !== "onnx"),
    [],
  );
});
