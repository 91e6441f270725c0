import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { PNodeId, VNodeId } from "../core/ids.ts";
import { Fleet } from "./placement/fleet.ts";
import { Pace } from "./placement/pace.ts";
import type { FleetNode } from "./placement/types.ts";
import { chain, node, policy, seeded, vnode, volunteers } from "./placement.testing.ts";
import { schedule, scheduling, type Waiting } from "./schedule.ts";

const memoryBytes = 100;

function waiting(workload: string, vnodes = 2): Waiting {
  const parts = Array.from({ length: vnodes }, (_, i) => vnode(`${workload}${i}`, { memoryBytes }));
  return { plan: chain(parts, 1_000, workload), policy: policy() };
}

const placed = (placements: ReturnType<typeof schedule>) =>
  Array.from(placements).flatMap(([workload, { decisions }]) => (decisions.length > 0 ? [workload] : []));

describe("the schedule", () => {
  it("gives one PNode with room for one workload to the first of three, and says why the others wait", () => {
    const fleet = new Fleet([node("p", { memoryFreeBytes: 2 * memoryBytes })]);
    const placements = schedule(fleet, [waiting("a"), waiting("b"), waiting("c")]);
    assert.deepEqual(placed(placements), ["a"]);
    assert.match(placements.get("b")?.unplaced[0]?.reason ?? "", /memory/);
    assert.equal(fleet.get("p" as PNodeId)?.memoryFreeBytes, 2 * memoryBytes, "deciding changes nothing");
  });

  it("gives a workload room for all it lacks or for nothing, and what it leaves to the next", () => {
    const fleet = new Fleet([node("p", { memoryFreeBytes: 3 * memoryBytes })]);
    assert.deepEqual(placed(schedule(fleet, [waiting("large", 4), waiting("small", 3)])), ["small"]);
  });

  it("asks the rest of a group to leave where some of it have no room, if all of it has room elsewhere", () => {
    const plan = {
      ...chain([vnode("v0", { memoryBytes }), vnode("v1", { memoryBytes })], 1_000, "a"),
      colocations: [["v0", "v1"] as VNodeId[]],
    };
    const current = new Map([["v0" as VNodeId, ["full" as PNodeId]]]);
    const full = node("full", { memoryFreeBytes: 0, hosts: new Map([["a", 1]]) });
    const outcome = (...others: FleetNode[]) =>
      schedule(new Fleet([full, ...others]), [{ plan, policy: policy({ numericsClass: "avx2", current }) }]).get("a");
    assert.deepEqual(outcome(node("free", { memoryFreeBytes: 2 * memoryBytes }))?.release, ["v0"]);
    assert.equal(outcome(node("free", { memoryFreeBytes: memoryBytes }))?.release, undefined);
    assert.deepEqual(outcome()?.decisions, []);
  });

  it("does not go back to where a VNode failed because a further copy of it finds no place", () => {
    const plan = chain([vnode("v", { memoryBytes })], 1_000, "a");
    const avoid = new Map([["v" as VNodeId, new Set(["failed" as PNodeId])]]);
    const outcome = (copies: number, ...nodes: FleetNode[]) =>
      schedule(new Fleet(nodes), [{ plan, policy: policy({ copies, avoid }) }])
        .get("a")
        ?.decisions.map((one) => one.pnode);
    const failed = node("failed", { memoryFreeBytes: memoryBytes, gflops: 1_000 });
    assert.deepEqual(outcome(2, failed, node("other", { memoryFreeBytes: memoryBytes })), ["other"]);
    assert.deepEqual(outcome(2, failed), ["failed"], "better than nowhere");
  });

  it("decides the same however often it pauses", () => {
    const nodes = volunteers(60, seeded(3));
    const queue = [waiting("a", 40), waiting("b", 3), waiting("c", 450)];
    let pauses = 0;
    const search = scheduling(new Fleet(nodes), queue, new Pace(50));
    for (;;) {
      const { done, value } = search.next();
      if (done) {
        assert.deepEqual(value, schedule(new Fleet(nodes), queue));
        break;
      }
      pauses++;
    }
    assert.ok(pauses > 100);
  });

  it("reserves GPUs for those that come first", () => {
    const fleet = new Fleet([node("p", { gpus: [8, 8, 8], gpusFree: 3 })]);
    const wants = (workload: string, gpus: number): Waiting => {
      const one = waiting(workload);
      return { ...one, policy: { ...one.policy, requirements: { ...one.policy.requirements, gpus } } };
    };
    assert.deepEqual(placed(schedule(fleet, [wants("a", 2), wants("b", 2), wants("c", 1)])), ["a", "c"]);
  });

  it("never hands out more than is free, in random fleets full of workloads", () => {
    for (let seed = 1; seed <= 20; seed++) {
      const random = seeded(seed);
      const nodes = volunteers(12, random).map((one): FleetNode => {
        return { ...one, memoryFreeBytes: Math.floor(random() * 8) * memoryBytes };
      });
      const queue = Array.from({ length: 10 }, (_, i) => waiting(`s${i}-`, 1 + Math.floor(random() * 5)));
      const used = new Map<string, number>();
      for (const { decisions } of schedule(new Fleet(nodes), queue).values())
        for (const { pnode } of decisions) used.set(pnode, (used.get(pnode) ?? 0) + memoryBytes);
      for (const { id, memoryFreeBytes } of nodes) assert.ok((used.get(id) ?? 0) <= memoryFreeBytes, `${seed}: ${id}`);
      assert.ok(used.size > 0);
    }
  });
});

describe("a copy of a fleet", () => {
  it("may be changed without a trace in the original, pools and classes included", () => {
    const fleet = new Fleet([node("p"), node("q", { numerics: [{ engine: "native", class: "other" }] })]);
    const pools = () => fleet.pools().map(({ name, nodes, example }) => [name, nodes.map(({ id }) => id), example.id]);
    const before = pools();
    const copy = fleet.copy();
    copy.delete("q" as PNodeId);
    copy.set(node("p", { gflops: 1 }));
    copy.set(node("r"));
    assert.deepEqual(pools(), before);
    assert.deepEqual(fleet.classes("native"), ["avx2", "other"]);
    assert.deepEqual([fleet.size, copy.size, copy.classes("native")], [2, 2, ["avx2"]]);
  });
});
