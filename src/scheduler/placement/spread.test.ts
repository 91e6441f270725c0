import assert from "node:assert/strict";
import { test } from "node:test";
import { chain, node, policy, vnode } from "../placement.testing.ts";
import { place } from "../placement.ts";
import { Fleet } from "./fleet.ts";

const plan = chain(["a", "b", "c", "d", "e", "f"].map((id) => vnode(id)));
const nodes = [
  node("a", { gflops: 100 }),
  node("b", { gflops: 1 }),
  node("c", { gflops: 1 }),
  node("d", { gflops: 1 }),
];
const used = (spread?: number) => {
  const { decisions } = place(plan, new Fleet(nodes), { ...policy(), ...(spread ? { spread } : {}) });
  assert.equal(decisions.length, 6);
  return new Set(decisions.map((decision) => decision.pnode)).size;
};

test("a session that asks for it is spread over more PNodes than speed alone would use", () => {
  assert.equal(used(), 1, "one PNode is by far the fastest");
  assert.equal(used(2), 2);
  assert.equal(used(3), 3);
  assert.equal(used(9), 4, "there are no more");
});

test("neighbours stay together when a pipeline is spread", () => {
  const { decisions } = place(plan, new Fleet(nodes), { ...policy(), spread: 3 });
  const order = plan.vnodes.map(({ id }) => decisions.find((decision) => decision.vnode === id)?.pnode);
  const changes = order.filter((pnode, index) => index > 0 && pnode !== order[index - 1]).length;
  assert.equal(changes, 2, `three runs: ${order.join(" ")}`);
});

test("a PNode that may have but little of a session counts too: what fits there goes there", () => {
  const others = [
    // All who have proved nothing get as much as one of the others would: three of these seven VNodes.
    { newcomer: true },
    // Room for one.
    { memoryFreeBytes: 1_500 },
  ];
  for (const other of others) {
    const chained = chain(Array.from({ length: 7 }, (_, index) => vnode(`v${index}`, { memoryBytes: 1_000 })));
    const { decisions, unplaced } = place(
      chained,
      new Fleet([node("fast", { gflops: 100 }), node("slow", { gflops: 1, ...other })]),
      {
        ...policy(),
        spread: 2,
      },
    );
    assert.deepEqual(unplaced, []);
    assert.equal(new Set(decisions.map(({ pnode }) => pnode)).size, 2, JSON.stringify(other));
  }
});

test("neighbours stay together on machines of unequal speed, whichever of them comes first", () => {
  const even = chain(
    ["embedder", "b1", "b2", "b3", "b4", "head"].map((id) =>
      vnode(id, { flops: id === "embedder" ? 1 : id === "head" ? 2e8 : 1e9 }),
    ),
  );
  for (const speeds of [
    [10, 11],
    [11, 10],
    [10, 10.2],
  ]) {
    const fleet = new Fleet(speeds.map((gflops, index) => node(`n${index}`, { gflops })));
    const { decisions } = place(even, fleet, policy());
    const order = even.vnodes.map(({ id }) => decisions.find((decision) => decision.vnode === id)?.pnode);
    const changes = order.filter((pnode, index) => index > 0 && pnode !== order[index - 1]).length;
    assert.equal(changes, 1, `${speeds}: ${order.join(" ")}`);
  }
});
