import assert from "node:assert/strict";
import { test } from "node:test";
import type { SessionId } from "../../core/ids.ts";
import { compileText } from "../../network/compile.ts";
import { expandLanes } from "../../network/lanes.ts";
import { trainingPlan } from "./compiled.ts";

const network = compileText(`
name: small
nodes:
  - { id: first, type: linear, config: { in_dim: 64, out_dim: 64 } }
  - { id: loss, type: cost, config: { cost_function: ce_logits } }
edges: [{ from: first, to: loss }]
costs: [{ name: loss, node_id: loss }]
`);
const identity = { batch: 8, microbatches: 4, steps: 1_000 };

function placed(settings: {
  readonly lanes?: number;
  readonly sync?: { readonly every: number; readonly after: number };
}) {
  return trainingPlan("s" as SessionId, expandLanes(network, settings), { ...identity, ...settings });
}

test("lanes share the work of a step, and need the memory of one each", () => {
  const [one, two] = [placed({}), placed({ lanes: 2 })];
  const flops = (plan: typeof one) => plan.vnodes.reduce((sum, vnode) => sum + vnode.flops, 0);
  assert.equal(flops(two), flops(one));
  assert.equal(two.vnodes.length, 2 * one.vnodes.length);
});

test("rounds send less in the mean of all steps, and keep more", () => {
  const sync = { every: 50, after: 10 };
  const [together, apart] = [placed({ lanes: 2 }), placed({ lanes: 2, sync })];
  const parameters = 64 * 64 + 64;
  const across = (plan: typeof together) =>
    plan.edges
      .filter(({ from, to }) => from.split("#")[0] === to.split("#")[0])
      .reduce((sum, edge) => sum + edge.bytes, 0);
  // Each copy sends its part of the other's shard, and the sum of its own: all parameters twice.
  assert.equal(across(together), 2 * 4 * parameters);
  assert.ok(across(apart) < across(together) / 50, `${across(apart)} of ${across(together)} bytes`);
  const memory = (plan: typeof together) => plan.vnodes.find(({ id }) => id === "first")?.memoryBytes ?? 0;
  assert.equal(memory(apart) - memory(together), 8 * parameters);
});
