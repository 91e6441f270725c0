import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { compileText } from "./compile.ts";
import { expandLanes, isFirstLane, originalOf, paddedElements, shardBlockElements, shardOf } from "./lanes.ts";

const network = compileText(`
name: small
nodes:
  - { id: first, type: linear, config: { in_dim: 40, out_dim: 30 } }
  - { id: bend, type: relu }
  - { id: last, type: linear, config: { in_dim: 30, out_dim: 3 } }
  - { id: loss, type: cost, config: { cost_function: ce_logits } }
edges: [{ from: first, to: bend }, { from: bend, to: last }, { from: last, to: loss }]
costs: [{ name: loss, node_id: loss }]
`);

describe("a plan with lanes", () => {
  it("has every VNode and edge once for each lane, and is the network itself with one", () => {
    assert.equal(expandLanes(network, { lanes: 1 }), network);
    const plan = expandLanes(network, { lanes: 3 });
    assert.equal(plan.vnodes.length, 3 * network.vnodes.length);
    assert.equal(new Set(plan.vnodes.map(({ id }) => id)).size, plan.vnodes.length);
    assert.deepEqual(new Set(plan.order), new Set(plan.vnodes.map(({ id }) => id)));
    assert.deepEqual(
      plan.vnodes.filter(({ id }) => isFirstLane(id)).map(({ id }) => id),
      network.vnodes.map(({ id }) => id),
    );
    const inLanes = plan.edges.filter(({ kind }) => kind !== "reduce");
    assert.equal(inLanes.length, 3 * network.edges.length);
    assert.equal(new Set(plan.edges.map(({ id }) => id)).size, plan.edges.length);
  });

  it("joins the copies of what learns, and nothing else across lanes", () => {
    const plan = expandLanes(network, { lanes: 3 });
    const laneOf = new Map(plan.vnodes.map(({ id, copy }) => [id, copy!.lane]));
    for (const { kind, from, to } of plan.edges) assert.equal(laneOf.get(from) === laneOf.get(to), kind !== "reduce");
    for (const vnode of network.vnodes) {
      const joined = plan.edges.filter(
        ({ kind, from }) => kind === "reduce" && originalNameOf(plan, from) === vnode.id,
      );
      const shards = [0, 1, 2].filter((lane) => shardOf(paddedElements(vnode), 3, lane).length > 0).length;
      assert.equal(joined.length, vnode.parameters.length === 0 ? 0 : 2 * shards, vnode.id);
    }
  });

  it("lets all copies of a VNode be one in all that is computed", () => {
    for (const vnode of expandLanes(network, { lanes: 4 }).vnodes)
      assert.equal(
        originalOf(network, vnode),
        network.vnodes.find(({ id }) => id === vnode.copy!.of),
      );
  });
});

function originalNameOf(plan: typeof network, id: string): string | undefined {
  return plan.vnodes.find((vnode) => vnode.id === id)?.copy?.of;
}

describe("shards", () => {
  it("cover all elements once, in whole blocks, whatever the number of lanes", () => {
    for (const elements of [0, 1, 16, 255, 256, 257, 1_000, 65_536, 100_001])
      for (let lanes = 1; lanes <= 17; lanes++) {
        let at = 0;
        for (let lane = 0; lane < lanes; lane++) {
          const { start, length } = shardOf(elements, lanes, lane);
          assert.equal(start, at);
          at += length;
          assert.ok(at % shardBlockElements === 0 || at === elements);
        }
        assert.equal(at, elements);
      }
  });
});
