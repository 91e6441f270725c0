import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { PNodeId, VNodeId } from "../../core/ids.ts";
import { chain, node, policy, vnode } from "../placement.testing.ts";
import { schedule } from "../schedule.ts";
import { Fleet } from "./fleet.ts";
import { throughput } from "./parts.ts";
import type { FleetNode, PlacementPlan, Policy } from "./types.ts";

const memoryBytes = 100;

/** Lanes of two VNodes each, `a0 b0`, `a1 b1`. */
function lanes(count: number): PlacementPlan {
  const parts = Array.from({ length: count }, (_, lane) => [`a${lane}`, `b${lane}`] as VNodeId[]);
  return {
    ...chain(
      parts.flat().map((id) => vnode(id, { memoryBytes, flops: 1e9 })),
      1_000,
      "w",
    ),
    parts,
  };
}

const machine = (id: string, classes: readonly string[], changes: Partial<FleetNode> = {}) =>
  node(id, { numerics: classes.map((own) => ({ engine: own, class: own })), ...changes });

const mixed = (changes: Partial<Policy> = {}) => policy({ engine: "mixed", numericsClass: "avx", ...changes });

const bound = (...names: string[]) => names.map((name) => ({ class: name, isBound: true }));

function placed(fleet: readonly FleetNode[], plan: PlacementPlan, asked: Policy) {
  const placement = schedule(new Fleet(fleet), [{ plan, policy: asked }]).get("w");
  const where = Object.fromEntries((placement?.decisions ?? []).map((one) => [one.vnode, `${one.pnode} ${one.class}`]));
  return { where, unplaced: placement?.unplaced.map((one) => one.vnode) ?? [] };
}

describe("a workload in parts", () => {
  it("gets room for the parts that fit, whole, and names the others", () => {
    const room = { memoryFreeBytes: 3 * memoryBytes };
    const { where, unplaced } = placed([node("p", room)], lanes(2), policy());
    assert.deepEqual([Object.keys(where), unplaced], [["a0", "b0"], ["b1"]]);
  });

  it("puts each part on machines of one class, and uses them all where that is faster", () => {
    const fleet = [
      machine("p", ["avx", "wasm"]),
      machine("arm", ["neon", "wasm"]),
      machine("tab", ["wasm"], { gflops: 5 }),
    ];
    const { where } = placed(fleet, lanes(3), mixed());
    const all = { a0: "p avx", b0: "p avx", a1: "arm neon", b1: "arm neon", a2: "tab wasm", b2: "tab wasm" };
    assert.deepEqual(Object.values(where).sort(), Object.values(all).sort());
  });

  it("makes a machine a lane of its GPU's class where it is fastest in that, and of its processor's where it is not", () => {
    const laptop = machine("laptop", ["avx", "wasm"]);
    const withGpu = (...classes: string[]) => placed([laptop, machine("gamer", classes)], lanes(2), mixed()).where;
    const gpuFirst = withGpu("webgpu", "avx", "wasm");
    assert.deepEqual(Object.values(gpuFirst).sort(), ["gamer webgpu", "gamer webgpu", "laptop avx", "laptop avx"]);
    const gpuLast = withGpu("avx", "wasm", "webgpu");
    assert.deepEqual(new Set(Object.values(gpuLast)), new Set(["gamer avx", "laptop avx"]));
  });

  it("never computes by exact numerics, in which every machine is slower", () => {
    const fleet = [machine("p", ["exact", "avx", "wasm"]), machine("tab", ["wasm", "exact"])];
    assert.deepEqual(new Fleet(fleet).classes("mixed"), ["avx", "wasm"]);
    const { where } = placed(fleet, lanes(2), mixed());
    const all = { a0: "p avx", b0: "p avx", a1: "tab wasm", b1: "tab wasm" };
    assert.deepEqual(Object.values(where).sort(), Object.values(all).sort());
  });

  it("keeps to the class that is fixed for a part, on machines that are faster in another if need be, or waits", () => {
    const current = new Map<VNodeId, readonly PNodeId[]>(["a0", "b0"].map((id) => [id as VNodeId, ["p" as PNodeId]]));
    const fleet = [machine("p", ["avx"], { hosts: new Map([["w", 2]]) }), machine("arm", ["neon", "wasm"])];
    const inWasm = placed(fleet, lanes(2), mixed({ current, classes: bound("avx", "wasm") }));
    assert.deepEqual(inWasm.where, { a1: "arm wasm", b1: "arm wasm" });
    const gone = placed(fleet, lanes(2), mixed({ current, classes: bound("avx", "gone") }));
    assert.deepEqual([gone.where, gone.unplaced.length > 0], [{}, true], "nothing is put beside it in another class");
  });

  it("prefers the class in which a part is, and takes another where that has no room", () => {
    const fleet = [machine("p", ["avx"]), machine("arm", ["neon"], { gflops: 500 })];
    const isIn = (name: string) => mixed({ classes: [{ class: name, isBound: false }] });
    assert.deepEqual(placed(fleet, lanes(1), isIn("avx")).where, { a0: "p avx", b0: "p avx" });
    assert.deepEqual(placed(fleet, lanes(1), isIn("gone")).where, { a0: "arm neon", b0: "arm neon" });
  });

  it("is without a place where nobody is here, and says so", () => {
    assert.deepEqual(placed([], lanes(2), mixed()).unplaced.sort(), ["a0", "a1", "b0", "b1"]);
  });

  it("is as fast as its parts together, each as its slowest machine", () => {
    const fleet = new Fleet([node("p", { gflops: 1 }), node("q", { gflops: 2 })]);
    const places = (...homes: string[]) =>
      new Map(["a0", "b0", "a1", "b1"].map((id, at) => [id as VNodeId, [homes[at] as PNodeId]]));
    assert.equal(throughput(lanes(2), fleet, places("p", "p", "q", "q")) * 1_000, 0.5 + 1);
    assert.equal(throughput(lanes(2), fleet, places("q", "q", "q", "q")) * 1_000, 0.5 + 0.5);
    assert.equal(throughput(lanes(2), fleet, places("p", "q", "p", "q")) * 1_000, 0.5 + 0.5);
    const inAnother = throughput(lanes(2), fleet, places("p", "p", "q", "q"), (id) => (/0/.test(id) ? "avx2" : "wasm"));
    assert.equal(inAnother * 1_000, 0.5 + 0.5, "half as fast in a class that is not its own");
  });
});
