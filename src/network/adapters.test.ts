// Networks with adapters: what they are made of, that a fresh one changes nothing, and that merging is what it says.

import assert from "node:assert/strict";
import { test } from "node:test";
import { fillNormal, randomKey } from "../core/numbers/random.ts";
import { elementCount, float32, type Tensor } from "../core/tensor.ts";
import { openReferenceEngine } from "../engine/reference.ts";
import { adaptersOf, mergedWeight, withAdapters, withoutAdapters } from "./adapters.ts";
import { compileText } from "./compile.ts";
import { buildInference, buildTraining } from "./graphs/graphs.ts";
import type { Plan } from "./plan.ts";

const block = (n: number) => `
  - { id: fork_${n}, type: broadcast, config: { colocate_group: b${n} } }
  - { id: norm_${n}, type: rmsnorm, config: { colocate_group: b${n} } }
  - { id: attention_${n}, type: attention, config: { num_heads: 4, num_kv_heads: 2, position_encoding: rope, colocate_group: b${n} } }
  - { id: join_${n}, type: add, config: { colocate_group: b${n} } }
  - { id: ffn_up_${n}, type: linear, config: { out_dim: 12, colocate_group: b${n} } }
  - { id: act_${n}, type: silu, config: { colocate_group: b${n} } }
  - { id: ffn_down_${n}, type: linear, config: { out_dim: 8, bias: false, colocate_group: b${n} } }`;
const plain = `name: small
nodes:
  - { id: embedder, type: embedder, config: { vocab_size: 13, dim: 8, seq_len: 8, shared_weight_alias: tokens } }${block(1)}${block(2)}
  - { id: head_norm, type: rmsnorm, config: { colocate_group: head } }
  - { id: lm_head, type: linear, config: { tie_weight_alias: tokens, colocate_group: head } }
  - { id: loss, type: cost, config: { cost_function: ce_logits, colocate_group: head } }
edges:
${[1, 2]
  .map(
    (n) => `  - { from: ${n === 1 ? "embedder" : "ffn_down_1"}, to: fork_${n} }
  - { from: fork_${n}, to: norm_${n} }
  - { from: norm_${n}, to: attention_${n} }
  - { from: attention_${n}, to: join_${n} }
  - { from: fork_${n}, to: join_${n}, from_slot: 1, to_slot: 1 }
  - { from: join_${n}, to: ffn_up_${n} }
  - { from: ffn_up_${n}, to: act_${n} }
  - { from: act_${n}, to: ffn_down_${n} }`,
  )
  .join("\n")}
  - { from: ffn_down_2, to: head_norm }
  - { from: head_norm, to: lm_head }
  - { from: lm_head, to: loss }
outputs: [{ name: logits, node_id: lm_head }]
costs: [{ name: loss, node_id: loss }]
`;
const adapted = withAdapters(plain, { rank: 3, alpha: 6 });

function drawn(name: string, shape: readonly number[]): Tensor {
  const data = new Float32Array(elementCount(shape));
  fillNormal(data, randomKey("weights", name), 0.3);
  return float32(shape, data);
}

async function logitsOf(plan: Plan, load: (name: string, shape: readonly number[]) => Tensor): Promise<Float32Array> {
  const engine = openReferenceEngine();
  const ids = Int32Array.from({ length: 8 }, (_, i) => (5 * i + 2) % 13);
  let values: Record<string, Tensor> = { inputs: { dtype: "int32", shape: [1, 8], data: ids } };
  const shapes = new Map(plan.vnodes.flatMap(({ parameters }) => parameters.map(({ name, shape }) => [name, shape])));
  for (const id of plan.order) {
    const vnode = plan.vnodes.find((one) => one.id === id)!;
    for (const { name, shape } of vnode.parameters) values[name] = load(name, shape);
    for (const edge of plan.edges)
      if (edge.kind === "tie" && edge.to === id) values[edge.toPort] = load(edge.fromPort, shapes.get(edge.fromPort)!);
    const graph = buildInference(plan, vnode, { microbatch: 1 });
    const outputs = await (await engine.load(graph)).run(values);
    values = { ...values, ...outputs };
    for (const edge of plan.edges)
      if (edge.from === id && edge.kind === "activation") values[edge.toPort] = outputs[edge.fromPort]!;
  }
  return values[plan.outputs[0]!.port]!.data as Float32Array;
}

test("an adapted network has the other's weights, frozen, and narrow matrices that alone learn", () => {
  const [before, after] = [compileText(plain), compileText(adapted)];
  const own = before.vnodes.flatMap(({ parameters }) => parameters.map(({ name }) => name));
  const all = after.vnodes.flatMap(({ parameters }) => parameters);
  assert.deepEqual(
    all.filter(({ frozen }) => frozen).map(({ name }) => name),
    own,
  );
  assert.ok(all.filter(({ frozen }) => !frozen).every(({ adapter }) => adapter));
  assert.equal(adaptersOf(after).length, 8, "two blocks of qkv, output, up and down");
  for (const vnode of after.vnodes) {
    const { forward, backward } = buildTraining(after, vnode, { microbatch: 1, lossScale: 1 });
    const given = [...forward.outputs, ...(backward?.outputs ?? [])].map(({ name }) => name);
    const grads = given.filter((name) => name.startsWith("grad:") && !name.includes(">"));
    const learnt = vnode.parameters.filter(({ frozen }) => !frozen).map(({ name }) => `grad:${name}`);
    assert.deepEqual(grads.toSorted(), learnt.toSorted(), vnode.id);
  }
  assert.deepEqual(compileText(withoutAdapters(adapted)).vnodes, before.vnodes, "and is undone");
});

test("nothing flows back to where nothing learns", () => {
  const plan = compileText(adapted);
  const table = plan.vnodes.find(({ nodes }) => nodes.includes("embedder"))!;
  assert.equal(table.role, "passes");
  for (const edge of plan.edges) if (edge.from === table.id) assert.equal(edge.gradient, false, edge.id);
});

test("a fresh adapter changes nothing; a merged one gives what it gave beside the weights", async () => {
  const [before, after] = [compileText(plain), compileText(adapted)];
  const base = await logitsOf(before, drawn);
  const fresh = (name: string, shape: readonly number[]) =>
    name.endsWith("adapter_b") ? float32(shape, new Float32Array(elementCount(shape))) : drawn(name, shape);
  assert.deepEqual(await logitsOf(after, fresh), base);
  const learnt = await logitsOf(after, drawn);
  const shapes = new Map(after.vnodes.flatMap(({ parameters }) => parameters.map(({ name, shape }) => [name, shape])));
  const byWeight = new Map(adaptersOf(after).map((one) => [one.weight, one]));
  const merged = await logitsOf(before, (name, shape) => {
    const adapter = byWeight.get(name);
    if (!adapter) return drawn(name, shape);
    const [a, b] = [adapter.a, adapter.b].map((each) => drawn(each, shapes.get(each)!)) as [Tensor, Tensor];
    assert.equal(adapter.scale, 2);
    return mergedWeight(drawn(name, shape), a, b, adapter.scale);
  });
  let moved = 0;
  for (const [i, value] of learnt.entries()) {
    assert.ok(Math.abs(value - merged[i]!) < 1e-4 * (1 + Math.abs(value)), `${i}: ${value}, ${merged[i]}`);
    moved = Math.max(moved, Math.abs(value - base[i]!));
  }
  assert.ok(moved > 0.1, `adapters count: ${moved}`);
});

test("targets are chosen by name; those that do not exist are refused with those that do", () => {
  const one = compileText(withAdapters(plain, { rank: 2, targets: ["attention_2", "ffn_up*"] }));
  assert.deepEqual([...new Set(adaptersOf(one).map(({ node }) => node))].toSorted(), [
    "attention_2",
    "ffn_up_1",
    "ffn_up_2",
  ]);
  assert.throws(
    () => withAdapters(plain, { rank: 2, targets: ["nothing"] }),
    /is called "nothing": there are .*attention_1/,
  );
  assert.throws(() => withAdapters(plain, { rank: 2, targets: ["embedder"] }), /is called "embedder"/);
  assert.throws(() => withAdapters(adapted, { rank: 2 }), /has adapters already/);
  assert.throws(() => withAdapters(plain, { rank: 0 }), /adapter_rank/);
});
