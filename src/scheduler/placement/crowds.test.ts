// What limits on newcomers do to a small fleet over time: machines go one after the other, and others come that nobody knows yet.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { PNodeId, VNodeId } from "../../core/ids.ts";
import { chain, node, policy, vnode } from "../placement.testing.ts";
import { place } from "../placement.ts";
import { Fleet } from "./fleet.ts";
import type { Checked, FleetNode, PlacementPlan, Policy } from "./types.ts";

const unit = 64 << 20;
const plan = chain(Array.from({ length: 6 }, (_, index) => vnode(`v${index}`)));

/** Where everything is afterwards; what is in `current` stays. */
function placed(nodes: readonly FleetNode[], current: ReadonlyMap<VNodeId, PNodeId>, changes: Partial<Policy> = {}) {
  const settled = new Map(Array.from(current, ([id, pnode]) => [id, [pnode]]));
  const { decisions, unplaced } = place(plan, new Fleet(nodes), { ...policy(changes), current: settled });
  assert.deepEqual(unplaced, []);
  return new Map([...current, ...decisions.map(({ vnode: id, pnode }) => [id, pnode] as const)]);
}

/** How many VNodes went with each machine, where the oldest that hosts any is lost once the others have worked. */
function lost(losses: number): number[] {
  let nodes = ["p0", "p1", "p2"].map((id) => node(id, { newcomer: true }));
  let where = placed(nodes, new Map(), { spread: 2 });
  return Array.from({ length: losses }, (_, loss) => {
    const hosts = new Set(where.values());
    nodes = nodes.map((one) => (hosts.has(one.id) ? { ...one, newcomer: false } : one));
    const victim = nodes.find(({ id }) => hosts.has(id)) as FleetNode;
    nodes = nodes.filter((one) => one !== victim);
    const kept = new Map([...where].filter(([, pnode]) => pnode !== victim.id));
    const gone = where.size - kept.size;
    where = placed(nodes, kept, { spread: 2 });
    nodes.push(node(`p${loss + 3}`, { newcomer: true }));
    return gone;
  });
}

test("machines that are lost one after the other leave no more behind than their even share", () => {
  const gone = lost(8);
  assert.ok(
    gone.every((vnodes) => vnodes <= 3),
    `of six were lost ${gone.join(", ")}`,
  );
});

/** VNodes that newcomers get beside so many machines that are proven. */
function newcomersGet(proven: number, of: PlacementPlan, changes: Partial<Policy> = {}): number {
  const known = Array.from({ length: proven }, (_, index) => node(`known${index}`, { trust: "known" }));
  const boasters = Array.from({ length: 20 }, (_, index) => node(`new${index}`, { newcomer: true, gflops: 1e6 }));
  const { decisions } = place(of, new Fleet([...known, ...boasters]), policy(changes));
  return decisions.filter(({ pnode }) => pnode.startsWith("new")).length;
}

test("all newcomers together count as one machine more, or as 30 % of a workload if that is more", () => {
  const twelve = chain(Array.from({ length: 12 }, (_, index) => vnode(`v${index}`)));
  assert.deepEqual(
    [1, 2, 3, 4].map((proven) => newcomersGet(proven, twelve)),
    [6, 4, 3, 3],
  );
});

test("where results are checked they get 30 %, however few others there are", () => {
  const twelve = chain(Array.from({ length: 12 }, (_, index) => vnode(`v${index}`)));
  assert.deepEqual(
    [1, 2, 3, 4].map((proven) => newcomersGet(proven, twelve, { checked: "sampled" })),
    [3, 3, 3, 3],
  );
});

/** VNodes that five machines of one owner get where each machine has room for so many. */
function sybilsGet(vnodes: number, others: readonly FleetNode[], checked: Checked, roomFor: number): number {
  const of = chain(Array.from({ length: vnodes }, (_, index) => vnode(`v${index}`, { memoryBytes: unit })));
  const boast = { owner: "mallory", newcomer: true, gflops: 1e6 };
  const sybils = Array.from({ length: 5 }, (_, index) => node(`x${index}`, boast));
  const all = [...others, ...sybils].map((one) => ({ ...one, memoryFreeBytes: roomFor * unit }));
  const { decisions, unplaced } = place(of, new Fleet(all), policy({ checked }));
  assert.deepEqual(unplaced, []);
  return decisions.filter(({ pnode }) => pnode.startsWith("x")).length;
}

test("newcomers that are needed do not all come from one owner while a stranger among them has room", () => {
  const trusted = ["a", "b", "c", "d"].map((id) => node(id, { trust: "trusted" }));
  const stranger = node("e", { newcomer: true });
  // Those who are trusted keep half of their room for checks: two newcomers under the limit are one too few.
  assert.equal(sybilsGet(7, [...trusted, stranger], "proven", 2), 1);
});

test("where nobody can keep room for checks one owner gets no more of it than elsewhere", () => {
  const strangers = ["a", "b", "c"].map((id) => node(id, { newcomer: true }));
  for (const checked of ["sampled", "checked"] as const) assert.equal(sybilsGet(4, strangers, checked, 1), 1);
});
