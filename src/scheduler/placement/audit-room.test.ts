import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import type { PNodeId } from "../../core/ids.ts";
import { chain, node, policy, vnode } from "../placement.testing.ts";
import { place } from "../placement.ts";
import { Fleet } from "./fleet.ts";
import type { Checked, FleetNode, Policy } from "./types.ts";

const unit = 64 << 20;
const roomFor = (vnodes: number) => vnodes * unit;

/** How much room is left, in VNodes, by machine. */
function leftOn(nodes: readonly FleetNode[], vnodes: number, checked: Checked | undefined, copies = 1) {
  const plan = chain(Array.from({ length: vnodes }, (_, i) => vnode(`v${i}`, { memoryBytes: unit })));
  const { decisions, unplaced } = place(plan, new Fleet(nodes), policy({ copies, ...(checked ? { checked } : {}) }));
  const left = new Map(nodes.map(({ id, memoryFreeBytes }) => [id as string, memoryFreeBytes / unit]));
  for (const { pnode } of decisions) left.set(pnode, (left.get(pnode) ?? 0) - 1);
  return { left, unplaced: unplaced.length, owners: Map.groupBy(decisions, ({ vnode: id }) => id) };
}

describe("room for checks", () => {
  const trusted = ["t1", "t2"].map((id) => node(id, { trust: "trusted", gflops: 500, memoryFreeBytes: roomFor(3) }));
  const known = ["a", "b"].map((id) => node(id, { trust: "known", gflops: 50, memoryFreeBytes: roomFor(4) }));

  it("stays on trusted machines where they have to check everything, however fast they are", () => {
    assert.equal(leftOn([...trusted, ...known], 9, undefined).left.get("t1"), 0, "nobody checks: they are filled");
    const { left, unplaced } = leftOn([...trusted, ...known], 9, "proven");
    assert.equal(unplaced, 0);
    assert.ok((left.get("t1") ?? 0) >= 1 && (left.get("t2") ?? 0) >= 1);
  });

  it("is enough for every VNode with two owners: somebody trusted that does not own it has room", () => {
    const many = [...trusted, ...known, node("c", { trust: "known", memoryFreeBytes: roomFor(4) })];
    const { left, unplaced, owners } = leftOn(many, 6, "proven", 2);
    assert.equal(unplaced, 0);
    for (const [id, own] of owners) {
      const able = trusted.filter((one) => !own.some(({ pnode }) => pnode === (one.id as PNodeId)));
      assert.ok(able.length === 0 || able.some((one) => (left.get(one.id) ?? 0) >= 1), id);
    }
  });

  it("is kept by all who are known where strangers check", () => {
    const { left, unplaced } = leftOn(known, 6, "checked");
    assert.deepEqual([unplaced, left.get("a"), left.get("b")], [0, 1, 1]);
  });

  it("is given up before something has no place at all", () => {
    for (const checked of ["sampled", "checked", "proven"] as const) {
      const { left, unplaced } = leftOn([...trusted, ...known], 14, checked);
      assert.deepEqual([unplaced, ...left.values()], [0, 0, 0, 0, 0], checked);
    }
  });

  it("is never given up for a further copy: two owners that contradict each other wait for somebody with room", () => {
    for (const checked of ["sampled", "checked"] as const) {
      const { left, unplaced } = leftOn(known, 4, checked, 2);
      assert.deepEqual([unplaced, ...left.values()], [2, 1, 1], checked);
    }
    const { left, unplaced } = leftOn(known, 4, undefined, 2);
    assert.deepEqual([unplaced, ...left.values()], [0, 0, 0], "nobody checks");
  });

  it("is given up for what has no place at all also where as many further copies then have none", () => {
    const full = ["a", "b"].map((id) => node(id, { memoryFreeBytes: 0 }));
    const half = ["t1", "t2", "t3", "t4"].map((id) => node(id, { trust: "trusted", memoryFreeBytes: roomFor(1) }));
    const owners = { v0: ["a", "b"], v1: ["a", "t1"], v2: ["t2"], v3: ["b", "t3"], v4: ["t4"] };
    const current = new Map(Object.entries(owners)) as unknown as Policy["current"];
    const plan = chain(Array.from({ length: 6 }, (_, i) => vnode(`v${i}`, { memoryBytes: unit })));
    const { unplaced } = place(plan, new Fleet([...full, ...half]), policy({ copies: 2, checked: "proven", current }));
    assert.deepEqual(
      unplaced.filter(({ copy }) => copy === 0),
      [],
    );
  });

  it("gives way to the limits on machines that have proved nothing where only samples are checked", () => {
    const crowd = ["x", "y"].map((id) => node(id, { owner: "mallory", gflops: 500, memoryFreeBytes: roomFor(8) }));
    const strangers = (checked: Checked) => {
      const { left } = leftOn([...known, ...crowd], 9, checked);
      return 16 - (left.get("x") ?? 0) - (left.get("y") ?? 0);
    };
    assert.equal(strangers("sampled"), 1, "as without room for checks");
    assert.ok(strangers("checked") > 1, "without room nothing would ever be final");
  });
});
