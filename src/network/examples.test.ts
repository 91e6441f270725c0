import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { t1, t2, transformerYaml } from "../../examples/generate.ts";
import { analyze, renderAnalysis } from "./analyze.ts";
import { nodeTypes } from "./catalogue/registry.ts";
import { compileText } from "./compile.ts";
import { renderReference } from "./reference.ts";

const example = (name: string) => readFileSync(new URL(`../../examples/${name}.yaml`, import.meta.url), "utf8");

test("T1 and T2 in the files are what the generator writes", () => {
  assert.equal(example("t1"), transformerYaml(t1));
  assert.equal(example("t2"), transformerYaml(t2));
});

for (const [name, parameters, nodes] of [
  ["t1", 27e6, 143],
  ["t2", 45e6, 183],
] as const)
  test(`${name} has about ${parameters / 1e6}M parameters in about ${nodes} nodes, blocks fused and heads merged`, () => {
    const { totals, vnodes, ties, colocations } = analyze(example(name));
    assert.ok(Math.abs(totals.parameters - parameters) < 0.5e6, `${totals.parameters}`);
    assert.ok(Math.abs(totals.nodes - nodes) <= 5, `${totals.nodes}`);
    assert.deepEqual(
      vnodes.map(({ id }) => id),
      [
        "embedder",
        ...vnodes.filter(({ id }) => id.startsWith("transformer_block_")).map(({ id }) => id),
        "output_head",
        "lm_head",
      ],
    );
    assert.ok(
      vnodes
        .filter(({ id }) => id.startsWith("transformer_block_"))
        .every(({ nodes, merged }) => nodes.length === 22 && merged[0]?.length === 9),
    );
    assert.deepEqual(ties, [
      { from: "embedder.weight", to: "lm_head", shape: name === "t1" ? [10_000, 512] : [32_768, 512] },
    ]);
    assert.deepEqual(colocations, [["embedder", "lm_head"]]);
  });

test("analyze fits the terminal's width, whatever it is", () => {
  for (const width of [60, 80, 120]) {
    const text = renderAnalysis(analyze(example("t1")), width);
    for (const line of text.split("\n")) assert.ok(line.length <= width, `${line.length} columns: ${line}`);
    assert.match(text, /27\.2 M parameters/);
  }
});

test("the reference has every type with every key", () => {
  const text = renderReference();
  for (const { type, keys } of nodeTypes) {
    assert.ok(text.includes(`## \`${type}\``), type);
    for (const key of Object.keys(keys)) assert.ok(text.includes(`\`${key}\``), `${type}: ${key}`);
  }
});

test("config values may be text or numbers, aliases of types are the types", () => {
  const plans = [
    'nodes: [{ id: a, type: dense, config: { in_dim: "4", out_dim: "2", bias: "false" } }]',
    "nodes: [{ id: a, type: linear, config: { in_dim: 4, out_dim: 2, bias: false } }]",
  ].map((text) => compileText(text).vnodes.map(({ body: _body, ...rest }) => rest));
  assert.deepEqual(plans[0], plans[1]);
});

test("a definition in the original's format may say more about sizes than is needed", () => {
  const text = `
name: tiny
precision: float32
nodes:
  - id: embedder
    type: embedder
    config: { vocab_size: "100", dim: "16", seq_len: "8", position_encoding: "none", shared_weight_alias: "token_embedding", colocate_group: "token_embedding", colocate_policy: "required", optimizer: "adam" }
    input_shapes: [[8]]
    output_shapes: [[8, 16]]
  - { id: fan, type: broadcast, config: { num_outputs: "3", dim: "16", seq_len: "8", colocate_group: "b", colocate_policy: "required" }, output_shapes: [[8, 16], [8, 16], [8, 16]] }
  - { id: h0, type: singleheadattention, config: { head_dim: "8", input_dim: "16", seq_len: "8", causal: "true", position_encoding: "rope", rope_theta: "10000.0", colocate_group: "b", colocate_policy: "required" } }
  - { id: h1, type: singleheadattention, config: { head_dim: "8", input_dim: "16", seq_len: "8", causal: "true", position_encoding: "rope", rope_theta: "10000.0", colocate_group: "b", colocate_policy: "required" } }
  - { id: heads, type: stack, config: { axis: "1", num_inputs: "2", dim: "16", colocate_group: "b", colocate_policy: "required" } }
  - { id: residual, type: add, config: { num_inputs: "2", dim: "16", colocate_group: "b", colocate_policy: "required" }, input_shapes: [[8, 16], [8, 16]] }
  - { id: up, type: linear, config: { in_dim: "16", out_dim: "128", seq_len: "8", colocate_group: "b", colocate_policy: "required" } }
  - { id: gate, type: swiglu, config: { in_dim: "128", out_dim: "64", dim: "64", colocate_group: "b", colocate_policy: "required" } }
  - { id: down, type: dense, config: { in_dim: "64", out_dim: "16", colocate_group: "b", colocate_policy: "required" } }
  - { id: drop, type: dropout, config: { rate: "0.1", colocate_group: "b", colocate_policy: "required" } }
  - { id: lm_head, type: linear, config: { in_dim: "16", out_dim: "100", tie_weight_alias: "token_embedding", colocate_group: "token_embedding", colocate_policy: "required" } }
  - { id: loss, type: cost, config: { cost_function: "ce_logits", vocab_size: "100", in_dim: "16", cost_precision: "float32", colocate_group: "token_embedding", colocate_policy: "required" }, input_shapes: [[8, 100], [8]], output_shapes: [[1]] }
edges:
  - { from: embedder, to: fan }
  - { from: fan, from_slot: 0, to: h0, to_slot: 0 }
  - { from: fan, from_slot: 1, to: h1 }
  - { from: h0, to: heads, to_slot: 0 }
  - { from: h1, to: heads, to_slot: 1 }
  - { from: heads, to: residual }
  - { from: fan, from_slot: 2, to: residual, to_slot: 1 }
  - { from: residual, to: up }
  - { from: up, to: gate }
  - { from: gate, to: down }
  - { from: down, to: drop }
  - { from: drop, to: lm_head }
  - { from: lm_head, to: loss }
outputs: [{ name: logits, node_id: lm_head, slot_id: 0 }]
costs: [{ name: ce_loss, node_id: loss, slot_id: 0 }]
metrics: [{ name: head_lr, type: learning_rate, node_id: lm_head, slot_id: 0 }]
`;
  const plan = compileText(text);
  assert.deepEqual(
    plan.vnodes.map(({ id, nodes }) => [id, nodes.length]),
    [
      ["b", 9],
      ["embedder", 1],
      ["lm_head", 2],
    ],
  );
  assert.deepEqual(plan.colocations, [["embedder", "lm_head"]]);
  assert.deepEqual(plan.metrics, [{ name: "head_lr", kind: "learning_rate", vnode: "lm_head" }]);
});

test("a network's title becomes a plain name", () => {
  const named = (name: string) =>
    compileText(`name: ${name}\nnodes: [{ id: a, type: linear, config: { in_dim: 4, out_dim: 2 } }]`).name;
  assert.equal(named('"T1 (decoder, 27M)"'), "T1-decoder-27M");
  assert.equal(named("mlp"), "mlp");
  assert.equal(named('"???"'), "network");
});
