// A served model is placed where its weights and the caches of all the requests it may answer at once have room.

import assert from "node:assert/strict";
import { test } from "node:test";
import { replicaIdOf } from "../../core/ids.ts";
import { compileText } from "../../network/compile.ts";
import { Fleet } from "../../scheduler/placement/fleet.ts";
import { node, policy } from "../../scheduler/placement.testing.ts";
import { place } from "../../scheduler/placement.ts";
import { servingPlan } from "../sessions/compiled.ts";

const megabyte = 2 ** 20;

function planOf(context: number) {
  const attention = "type: attention, config: { num_heads: 8, num_kv_heads: 4, head_dim: 64 }";
  const plan = compileText(`nodes:
  - { id: table, type: embedder, config: { vocab_size: 100, dim: 512, seq_len: ${context}, shared_weight_alias: t } }
  - { id: mix, ${attention} }
  - { id: loss, type: tied_lm_head_ce, config: { tie_weight_alias: t } }
edges: [{ from: table, to: mix }, { from: mix, to: loss }]`);
  return servingPlan(replicaIdOf("x", "0".repeat(12)), plan);
}

test("a longer context needs more memory, by the keys and values of every request at once", () => {
  const bytes = (context: number) => planOf(context).vnodes.find(({ id }) => id === "mix")?.memoryBytes ?? 0;
  const perPosition = 4 * 64 * 2 * 4;
  assert.equal(bytes(2048) - bytes(1024), 1024 * 16 * perPosition);
  assert.equal(
    planOf(2048).vnodes.find(({ id }) => id === "table")?.memoryBytes,
    planOf(1024).vnodes.find(({ id }) => id === "table")?.memoryBytes,
  );
});

test("a PNode without room for the caches is passed over, and a fleet without such room is told what is missing", () => {
  const small = node("small", { gflops: 100, memoryFreeBytes: 60 * megabyte, memoryBytes: 60 * megabyte });
  const large = node("large", { gflops: 1, memoryFreeBytes: 200 * megabyte, memoryBytes: 200 * megabyte });
  const placed = place(planOf(2048), new Fleet([small, large]), policy({}));
  assert.equal(placed.decisions.find(({ vnode }) => vnode === "mix")?.pnode, "large");
  const alone = place(planOf(2048), new Fleet([small]), policy({}));
  assert.match(alone.unplaced.find(({ vnode }) => vnode === "mix")?.reason ?? "", /needs 7\d(\.\d)? MB of memory/);
});
