import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { rootsOf, type Scene, type Standing } from "./roots.ts";

const names = new Map([
  ["p1", "birch"],
  ["p2", "cedar"],
]);

const standing = (vnode: string, change: Partial<Standing> = {}): Standing => ({
  vnode,
  pnode: "p2",
  phase: "computing",
  detail: "",
  forMs: 100,
  waitsFor: [],
  ...change,
});

const waiting = (vnode: string, whom: string, forMs = 5_000, pnode = "p2"): Standing =>
  standing(vnode, { pnode, phase: "waiting", detail: `step 4, for ${whom} since 5.0 s`, forMs, waitsFor: [whom] });

const scene = (standings: readonly Standing[], change: Partial<Scene> = {}): Scene => ({
  session: "t1-0123",
  standings,
  doubts: new Map(),
  unplaced: [],
  unplacedForMs: 0,
  stepMs: 200,
  address: "lab:7700",
  nameOf: (pnode) => names.get(pnode) ?? pnode,
  ...change,
});

/** A chain of VNodes: each waits for the one before it, the first is as given. */
function chain(first: Standing, length: number): Standing[] {
  const vnodes = [first];
  for (let index = 1; index < length; index++)
    vnodes.push(waiting(`block_${index}`, (vnodes[index - 1] as Standing).vnode, 60_000 - index));
  return vnodes;
}

describe("the roots of what waits", () => {
  it("are one sentence for 138 VNodes that wait for one silent machine", () => {
    const doubts = new Map([["p1", { quietMs: 2_100, lostInMs: 900, broken: false }]]);
    const [root, ...others] = rootsOf(scene(chain(standing("embed", { pnode: "p1" }), 138), { doubts }));
    assert.deepEqual(others, []);
    assert.equal(
      root?.sentence,
      "birch says nothing (last heard 2.1 s ago); 138 VNodes wait; unless it is heard within 900 ms, its work goes to others",
    );
    assert.deepEqual(
      [root?.kind, root?.pnode, root?.vnodes, root?.sinceMs, root?.untilMs],
      ["machine.silent", "p1", 138, 2_100, 900],
    );
  });

  it("are none while everybody waits no longer than steps take", () => {
    assert.deepEqual(rootsOf(scene([standing("a"), waiting("b", "a", 2_900), waiting("c", "b", 2_900)])), []);
    const long = [standing("a", { forMs: 20_000 }), waiting("b", "a", 20_000)];
    assert.deepEqual(rootsOf(scene(long, { stepMs: 10_000 })), [], "steps of ten seconds");
    assert.equal(rootsOf(scene(long)).length, 1, "steps of 200 ms");
  });

  it("name the VNode that computes for long only if somebody stands still for it", () => {
    const slow = standing("head", { pnode: "p1", forMs: 12_000 });
    assert.deepEqual(rootsOf(scene([slow, standing("a")])), []);
    const [root] = rootsOf(scene([slow, waiting("a", "head", 11_000), waiting("b", "a", 11_000)]));
    assert.equal(root?.kind, "slow");
    assert.equal(
      root?.sentence,
      "birch has been computing head for 12 s (a whole step usually takes 200 ms); 2 VNodes wait for it",
    );
  });

  it("say what a session without room needs, once, and what one can do", () => {
    const unplaced = ["a", "b", "c"].map((vnode) => ({ vnode, reason: "no PNode is online" }));
    const nowhere = unplaced.map(({ vnode }) => standing(vnode, { pnode: "", phase: "", forMs: 0 }));
    const [root, ...others] = rootsOf(scene(nowhere, { unplaced, unplacedForMs: 480_000 }));
    assert.deepEqual(others, []);
    assert.equal(root?.sentence, "3 VNodes wait for a machine for 8 min 0 s: no PNode is online");
    assert.equal(root?.remedy, "lend another machine: dcnr join lab:7700");
    assert.deepEqual(rootsOf(scene(nowhere, { unplacedForMs: 500 })), [], "a moment between two owners is normal");
  });

  it("tell two machines apart, the one that holds up more first", () => {
    const loading = { phase: "loading", detail: "reads its state", forMs: 9_000 };
    const found = rootsOf(
      scene([
        standing("a", loading),
        standing("b", { ...loading, pnode: "p1" }),
        standing("c", { ...loading, pnode: "p1" }),
        waiting("d", "c"),
      ]),
    );
    assert.deepEqual(
      found.map(({ sentence }) => sentence),
      [
        "birch has been loading 2 VNodes for 9.0 s (reads its state); 1 VNode waits for it",
        "cedar has been loading a for 9.0 s (reads its state)",
      ],
    );
  });

  it("see VNodes that wait for each other in a circle, after ten seconds and where nothing else is the matter", () => {
    const circle = (forMs: number) => [waiting("a", "b", forMs), waiting("b", "c", forMs), waiting("c", "a", forMs)];
    assert.deepEqual(rootsOf(scene(circle(9_000))), []);
    assert.match(rootsOf(scene(circle(11_000)))[0]?.sentence ?? "", /^a, b, c have waited for each other for 11 s/);
    const doubts = new Map([["p2", { quietMs: 300, lostInMs: 100, broken: true }]]);
    assert.deepEqual(
      rootsOf(scene(circle(11_000), { doubts })).map(({ kind }) => kind),
      ["machine.away"],
    );
  });
});
