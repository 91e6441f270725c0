// Units out of VNodes: where they are cut, what is left out, what is refused. What they compute is tested with the engines
// (vnode/serving/generation.test.ts).

import assert from "node:assert/strict";
import { test } from "node:test";
import { t1, transformerYaml } from "../../../examples/generate.ts";
import { hasCode } from "../../core/errors.ts";
import { cachePageBytes, pagePositions } from "../../engine/stage/attention.ts";
import { compileText } from "../compile.ts";
import { cacheBytesPerPosition } from "./generation.ts";
import { buildUnit } from "./unit.ts";

const context = 6;
const pieces = transformerYaml({ ...t1, name: "small", blocks: 2, heads: 2, headDim: 4, context, vocabulary: 11 });
const grouped = `nodes:
  - { id: table, type: embedder, config: { vocab_size: 11, dim: 8, seq_len: ${context}, position_encoding: learned, shared_weight_alias: t } }
  - { id: mix, type: attention, config: { num_heads: 4, num_kv_heads: 2, position_encoding: rope, rope_scaling: linear, rope_factor: 2 } }
  - { id: norm, type: rmsnorm, config: { colocate_group: head } }
  - { id: loss, type: tied_lm_head_ce, config: { tie_weight_alias: t, colocate_group: head } }
edges: [{ from: table, to: mix }, { from: mix, to: norm }, { from: norm, to: loss }]`;

function unitsOf(text: string) {
  const plan = compileText(text);
  return new Map(plan.order.map((id) => [id as string, buildUnit(plan, plan.vnodes.find((each) => each.id === id)!)]));
}

test("a block is cut at its attention, and every weight belongs to one piece", () => {
  const plan = compileText(pieces);
  const units = unitsOf(pieces);
  const blocks = [...units.values()].filter(({ steps }) => steps.some(({ kind }) => kind === "attend"));
  assert.equal(blocks.length, 2);
  for (const { name, steps } of blocks) {
    assert.deepEqual(
      steps.map(({ kind }) => kind),
      ["graph", "attend", "graph"],
    );
    const weights = steps.flatMap((step) => (step.kind === "graph" ? step.weights : []));
    const parameters = plan.vnodes.find(({ id }) => id === name)?.parameters.map((each) => each.name) ?? [];
    assert.deepEqual(weights.toSorted(), parameters.toSorted());
  }
});

test("only rows whose logits are asked for go through a head", () => {
  const head = unitsOf(pieces).get("lm_head");
  assert.deepEqual(
    head?.steps.map((step) => step.kind === "graph" && step.rows),
    ["logits", "hidden"],
  );
  const units = unitsOf(grouped);
  assert.deepEqual(units.get("norm+loss")?.outputs.map(({ name }) => name) ?? ["logits", "hidden"], [
    "logits",
    "hidden",
  ]);
});

test("a network whose nodes mix positions is refused by name", () => {
  const plan = compileText(grouped.replace("num_kv_heads: 2,", "causal: false,"));
  const vnode = plan.vnodes.find(({ id }) => id === "mix")!;
  assert.throws(
    () => buildUnit(plan, vnode),
    (thrown: Error) => hasCode(thrown, "failed_precondition") && /node "mix" is not causal/.test(thrown.message),
  );
});

const networks = {
  "grouped heads": "{ id: mix, type: attention, config: { num_heads: 4, num_kv_heads: 2, head_dim: 6 } }",
  "all heads": "{ id: mix, type: attention, config: { num_heads: 4 } }",
  "one head": "{ id: mix, type: attention_head, config: { head_dim: 8 } }",
};

for (const [what, node] of Object.entries(networks))
  test(`caches of ${what} take as much memory as is announced: a PNode must not be filled beyond its memory`, () => {
    const text = `nodes:
  - { id: table, type: embedder, config: { vocab_size: 11, dim: 8, seq_len: 64, shared_weight_alias: t } }
  - ${node}
  - { id: loss, type: tied_lm_head_ce, config: { tie_weight_alias: t } }
edges: [{ from: table, to: mix }, { from: mix, to: loss }]`;
    const plan = compileText(text);
    const bytes = plan.vnodes.map((vnode) => {
      const { steps } = buildUnit(plan, vnode);
      const page = steps.reduce((sum, step) => sum + (step.kind === "attend" ? cachePageBytes(step) : 0), 0);
      assert.equal(page, cacheBytesPerPosition(vnode) * pagePositions);
      return page;
    });
    assert.equal(bytes.filter((size) => size > 0).length, 1, "only the VNode that attends keeps anything");
  });
