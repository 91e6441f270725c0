// Single decisions of the autoscaler; whole days are in simulation/elastic.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { PNodeId } from "../core/ids.ts";
import { autoscale, effectivePrice } from "./autoscale.ts";
import { demandOfMemory } from "./demand.ts";
import type { FleetNode } from "./placement/types.ts";
import { requirementsNone } from "./placement/types.ts";
import type { ScaleMachine, ScaleOffer, ScaleProvider, ScaleView, WaitingWork } from "./scale-types.ts";

const gigabyte = 2 ** 30;

const offer = (name: string, more: Partial<ScaleOffer> = {}): ScaleOffer => ({
  ...{ provider: "lab", name, cores: 4, memoryBytes: 4 * gigabyte, gpus: [], pricePerHour: 1, region: "eu" },
  ...{ lossPerHour: 0, bootMs: 60_000, most: 10, ...more },
});
const provider = (more: Partial<ScaleProvider> = {}): ScaleProvider => ({
  ...{ name: "lab", least: 0, most: 10, budgetPerHour: 0, budgetTotal: 0, spent: 0 },
  ...{ idleMs: 300_000, coolDownMs: 120_000, sinceStartMs: 1e9, isRemoving: false, ...more },
});
/** So many VNodes, of one gigabyte each unless said otherwise. */
const work = (
  id: string,
  vnodes: number,
  more: Partial<WaitingWork> & { requirements?: object } = {},
): WaitingWork => ({
  id,
  demand: demandOfMemory(Array.from({ length: vnodes }, () => gigabyte)),
  policy: {
    bits: 2,
    engine: "portable",
    numericsClass: "",
    requirements: { ...requirementsNone, ...more.requirements },
  },
  ...more,
});
const node = (id: string, more: Partial<FleetNode> = {}): FleetNode => ({
  ...{ id: id as PNodeId, owner: "", region: "", provider: "", trust: "", architecture: "x64", bits: 2 },
  ...{ numerics: [{ engine: "portable", class: "portable-2" }], gflops: 10, newcomer: false, cores: 4 },
  ...{
    memoryBytes: 4 * gigabyte,
    memoryFreeBytes: 4 * gigabyte,
    gpus: [],
    gpusFree: 0,
    pricePerHour: 0,
    reliability: 1,
  },
  ...{ flapping: false, accepting: true, latencyMs: 1, bytesPerSecond: 1e6, hosts: new Map(), ...more },
});
const machine = (id: string, more: Partial<ScaleMachine> = {}): ScaleMachine => ({
  ...{
    id,
    provider: "lab",
    offer: "plain",
    state: "up" as const,
    pricePerHour: 1,
    pnode: id as PNodeId,
    idleMs: 1e9,
    ...more,
  },
});
const decide = (view: Partial<ScaleView>) =>
  autoscale({ nodes: [], machines: [], offers: [offer("plain")], providers: [provider()], waiting: [], ...view });
const started = (view: Partial<ScaleView>) => decide(view).starts.map((one) => one.offer);

describe("the autoscaler", () => {
  it("fetches as many machines as a gang needs, and none for what fits or is on its way", () => {
    assert.deepEqual(started({ waiting: [work("a", 3)] }), ["plain"], "3 GB on a machine of 4 GB");
    assert.deepEqual(
      started({ waiting: [work("a", 7)] }),
      ["plain", "plain", "plain"],
      "3 of 1 GB fit beside what a PNode keeps",
    );
    assert.deepEqual(started({ waiting: [work("a", 3)], nodes: [node("n")] }), [], "there is room");
    const coming = machine("m", { state: "coming", pnode: undefined as never });
    assert.deepEqual(started({ waiting: [work("a", 3)], machines: [coming] }), []);
    assert.deepEqual(started({ waiting: [work("a", 3), work("b", 3)], machines: [coming] }), ["plain"], "counted once");
  });

  it("takes the cheapest for what is asked, spot machines with what their losses cost", () => {
    const offers = [
      offer("dear", { pricePerHour: 3 }),
      offer("cheap", { pricePerHour: 1 }),
      offer("far", { pricePerHour: 0.1, region: "us" }),
    ];
    assert.deepEqual(started({ waiting: [work("a", 1, { requirements: { region: "eu" } })], offers }), ["cheap"]);
    const large = [
      offer("small", { memoryBytes: 1.5 * gigabyte, pricePerHour: 1 }),
      offer("large", { memoryBytes: 9 * gigabyte, pricePerHour: 3 }),
    ];
    assert.deepEqual(
      started({ waiting: [work("a", 8)], offers: large }),
      ["large"],
      "three an hour for eight, not eight",
    );
    assert.deepEqual(started({ waiting: [work("a", 1)], offers: large }), ["small"]);
    const spot = offer("spot", { pricePerHour: 1, lossPerHour: 40 });
    assert.ok(effectivePrice(spot) > 2);
    assert.deepEqual(started({ waiting: [work("a", 1)], offers: [spot, offer("sure", { pricePerHour: 2 })] }), [
      "sure",
    ]);
    assert.deepEqual(
      started({ waiting: [work("a", 1)], offers: [{ ...spot, lossPerHour: 0.1 }, offer("sure", { pricePerHour: 2 })] }),
      ["spot"],
    );
    const gpus = { waiting: [work("a", 1, { requirements: { gpus: 2, gpuMemoryBytes: 8 * gigabyte } })] };
    const withGpus = [
      offer("none"),
      offer("one", { gpus: [16 * gigabyte] }),
      offer("two", { gpus: [16 * gigabyte, 16 * gigabyte], pricePerHour: 9 }),
    ];
    assert.deepEqual(started({ ...gpus, offers: withGpus }), ["two"]);
  });

  it("fetches nothing of a gang that cannot be whole, and says why", () => {
    const whole = (more: Partial<ScaleView>) => {
      const { starts, unmet } = decide({ waiting: [work("a", 9)], ...more });
      assert.deepEqual(starts, []);
      return unmet.get("a") ?? "";
    };
    assert.match(whole({ providers: [provider({ most: 2 })] }), /provider lab may run 2 machine\(s\), and does/);
    assert.match(whole({ offers: [offer("plain", { most: 1 })] }), /no more of plain: 1 are there/);
    assert.match(
      whole({ providers: [provider({ budgetPerHour: 2.5 })] }),
      /may cost 2.5 an hour; another plain would make it 3/,
    );
    assert.match(whole({ providers: [provider({ budgetTotal: 10, spent: 9.5 })] }), /has spent 9.5 of 10/);
    assert.match(
      whole({ offers: [offer("plain", { memoryBytes: gigabyte })] }),
      /no provider offers a machine that it could use/,
    );
    assert.match(whole({ waiting: [work("a", 1, { expectedMs: 20_000 })] }), /starts sooner without another machine/);
    assert.match(whole({ waiting: [work("a", 1, { requirements: { trust: "trusted" } })] }), /no provider offers/);
  });

  it("gives back what is idle, the dearest first, after the cool-down and above the least; never what has work", () => {
    const machines = [machine("a"), machine("b", { pricePerHour: 5 }), { ...machine("c"), idleMs: undefined as never }];
    const nodes = machines.map(({ id }) => node(id));
    const drained = (more: Partial<ScaleView> = {}) =>
      decide({ machines, nodes, ...more }).drains.map((one) => one.machine);
    assert.deepEqual(drained(), ["b", "a"]);
    assert.deepEqual(drained({ providers: [provider({ least: 2 })] }), ["b"]);
    assert.deepEqual(drained({ providers: [provider({ sinceStartMs: 1_000 })] }), [], "something was started just now");
    assert.deepEqual(drained({ waiting: [work("w", 3)] }), ["b"], "a is counted on by work that is about to start");
    assert.deepEqual(drained({ providers: [provider({ isRemoving: true })] }), ["a", "b", "c"]);
    assert.deepEqual(
      drained({ providers: [provider({ budgetTotal: 10, spent: 9.9 })] }),
      ["a", "b", "c"],
      "the money is spent",
    );
    assert.deepEqual(
      started({ machines, nodes, waiting: [work("w", 30)], providers: [provider({ isRemoving: true })] }),
      [],
    );
  });

  it("keeps a machine that was to go if there is work for it, and keeps the least", () => {
    const draining = machine("d", { state: "draining" });
    const view = { machines: [draining], nodes: [node("d", { accepting: false })], waiting: [work("w", 2)] };
    assert.deepEqual(decide(view).keeps, ["d"]);
    assert.deepEqual(decide(view).starts, []);
    assert.deepEqual(started({ providers: [provider({ least: 2 })] }), ["plain", "plain"]);
    assert.deepEqual(started({ providers: [provider({ least: 2 })], machines: [machine("a")], nodes: [node("a")] }), [
      "plain",
    ]);
  });
});
