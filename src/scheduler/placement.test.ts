// Placement against oracles: exhaustive search for quality, a naive check for constraints.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { PNodeId, VNodeId } from "../core/ids.ts";
import { Fleet } from "./placement/fleet.ts";
import { atOnce, unhurried } from "./placement/pace.ts";
import { shouldMove } from "./placement/rebalance.ts";
import { type FleetNode, type PlacementPlan, type Policy, requirementsNone } from "./placement/types.ts";
import { chain, node, policy, seeded, vnode, volunteers } from "./placement.testing.ts";
import { place } from "./placement.ts";
import { claimsMax } from "./room.ts";

const gigabyte = 2 ** 30;

/** The shortest slowest stage of all layouts that fit, found by trying every one. */
function exhaustive(plan: PlacementPlan, nodes: readonly FleetNode[]): number {
  let best = Number.POSITIVE_INFINITY;
  const stage = nodes.map(() => 0);
  const memory = nodes.map((one) => one.memoryFreeBytes);
  const search = (depth: number, slowest: number): void => {
    if (slowest >= best) return;
    const next = plan.vnodes[depth];
    if (!next) {
      best = slowest;
      return;
    }
    nodes.forEach((one, i) => {
      if ((memory[i] as number) < next.memoryBytes) return;
      const ms = next.flops / (one.gflops * 1e6);
      stage[i] = (stage[i] as number) + ms;
      memory[i] = (memory[i] as number) - next.memoryBytes;
      search(depth + 1, Math.max(slowest, stage[i] as number));
      stage[i] = (stage[i] as number) - ms;
      memory[i] = (memory[i] as number) + next.memoryBytes;
    });
  };
  search(0, 0);
  return best;
}

/** The slowest stage of what `place` decided, computed from the decisions alone. */
function slowest(plan: PlacementPlan, nodes: readonly FleetNode[], where: ReadonlyMap<string, string>): number {
  const stage = new Map<string, number>();
  for (const one of plan.vnodes) {
    const host = nodes.find((candidate) => candidate.id === where.get(one.id)) as FleetNode;
    stage.set(host.id, (stage.get(host.id) ?? 0) + one.flops / (host.gflops * 1e6));
  }
  return Math.max(...stage.values());
}

function places(plan: PlacementPlan, nodes: readonly FleetNode[], changes: Partial<Policy> = {}): Map<string, string> {
  const { decisions } = place(plan, new Fleet(nodes), policy(changes));
  return new Map(decisions.map((decision) => [decision.vnode, decision.pnode]));
}

describe("placement", () => {
  it("puts the lanes of a network on machines of their own where there are enough", () => {
    // As plans with lanes come: lane after lane, and an edge each way between the copies of a VNode.
    const names = ["a", "b", "c"];
    const lanes = [0, 1].map((lane) => names.map((name) => vnode(`${name}${lane}`)));
    const [one, two] = lanes.map((vnodes) => chain(vnodes)) as [PlacementPlan, PlacementPlan];
    const across = names.flatMap((name) =>
      [
        [`${name}0`, `${name}1`],
        [`${name}1`, `${name}0`],
      ].map(([from, to]) => ({ from: from as VNodeId, to: to as VNodeId, bytes: 100_000 })),
    );
    const plan = { ...one, vnodes: lanes.flat(), edges: [...one.edges, ...two.edges, ...across] };
    const where = places(plan, [node("n1"), node("n2")]);
    for (const lane of [0, 1]) assert.equal(new Set(names.map((name) => where.get(`${name}${lane}`))).size, 1);
    for (const name of names) assert.notEqual(where.get(`${name}0`), where.get(`${name}1`));
  });

  it("comes within 10 % of the best slowest stage on small instances, within 3 % on average", () => {
    const random = seeded(7);
    const ratios: number[] = [];
    for (let instance = 0; instance < 300; instance++) {
      const nodes = Array.from({ length: 1 + Math.floor(random() * 5) }, (_, i) =>
        node(`p${i}`, { gflops: 10 + random() * 200, memoryFreeBytes: gigabyte * (1 + random() * 3) }),
      );
      const vnodes = Array.from({ length: 1 + Math.floor(random() * 8) }, (_, i) =>
        vnode(`v${i}`, { flops: 1e8 + random() * 5e9, memoryBytes: Math.floor(gigabyte * random() * 0.5) }),
      );
      const plan = chain(vnodes);
      const best = exhaustive(plan, nodes);
      if (!Number.isFinite(best)) continue;
      const where = places(plan, nodes);
      assert.equal(where.size, vnodes.length, `instance ${instance}: everything that can be placed is`);
      ratios.push(slowest(plan, nodes, where) / best);
    }
    assert.ok(ratios.length > 200, "enough instances can be solved at all");
    assert.ok(Math.max(...ratios) <= 1.1, `the worst is ${Math.max(...ratios)}`);
    const mean = ratios.reduce((sum, ratio) => sum + ratio, 0) / ratios.length;
    assert.ok(mean <= 1.03, `the mean is ${mean}`);
  });

  it("gives the same decisions for the same fleet, in whatever order it was built", () => {
    const nodes = volunteers(200, seeded(3));
    const plan = chain(Array.from({ length: 40 }, (_, i) => vnode(`v${i}`, { flops: 1e9 * (1 + (i % 7)) })));
    const there = place(plan, new Fleet(nodes), policy());
    const back = place(plan, new Fleet([...nodes].reverse()), policy());
    assert.deepEqual(there, back);
  });

  it("keeps neighbours together where that costs no speed", () => {
    const nodes = ["a", "b", "c", "d"].map((id) => node(id));
    const plan = chain(
      Array.from({ length: 16 }, (_, i) => vnode(`v${String(i).padStart(2, "0")}`)),
      1_000_000,
    );
    const where = places(plan, nodes);
    const cuts = plan.edges.filter((edge) => where.get(edge.from) !== where.get(edge.to)).length;
    assert.equal(cuts, 3);
  });

  it("stays on one PNode when links are slower than the gain", () => {
    const nodes = ["a", "b"].map((id) => node(id, { bytesPerSecond: 1e5, latencyMs: 50 }));
    const where = places(chain([vnode("v0"), vnode("v1")], 10_000_000), nodes);
    assert.equal(new Set(where.values()).size, 1);
  });

  it("prefers the peer that a measured link makes near", () => {
    const nodes = ["a", "b", "c"].map((id) =>
      node(id, { memoryFreeBytes: 100 << 20, latencyMs: 5, bytesPerSecond: 1e8 }),
    );
    const links = (from: PNodeId, to: PNodeId) =>
      [from, to].sort().join() === "b,c"
        ? { latencyMs: 0.1, bytesPerSecond: 1e9 }
        : { latencyMs: 200, bytesPerSecond: 1e6 };
    const { decisions } = place(chain([vnode("v0"), vnode("v1")], 1_000), new Fleet(nodes, links), policy());
    assert.deepEqual(new Set(decisions.map((one) => one.pnode as string)), new Set(["b", "c"]));
  });

  it("puts VNodes that must share a PNode on one", () => {
    const nodes = ["a", "b", "c"].map((id) => node(id));
    const plan = { ...chain([vnode("v0"), vnode("v1"), vnode("v2")]), colocations: [["v0", "v2"] as VNodeId[]] };
    const where = places(plan, nodes);
    assert.equal(where.get("v0"), where.get("v2"));
    assert.notEqual(where.get("v0"), where.get("v1"));
  });

  it("leaves a VNode without a place where its group has no room for it, and names who is in the way", () => {
    const plan = { ...chain([vnode("v0"), vnode("v1"), vnode("v2")]), colocations: [["v0", "v2"] as VNodeId[]] };
    const current = new Map([["v0" as VNodeId, ["a" as PNodeId]]]);
    const fleetWith = (memoryFreeBytes: number) => new Fleet([node("a", { memoryFreeBytes }), node("b")]);
    const asked = policy({ numericsClass: "avx2", current });
    const full = place(plan, fleetWith(1 << 20), asked);
    assert.deepEqual(
      full.decisions.map(({ vnode: id, pnode }) => [id, pnode]),
      [["v1", "b"]],
    );
    assert.deepEqual(full.torn, ["v0"]);
    assert.match(full.unplaced[0]?.reason ?? "", /64 MB of memory where the rest of its group is; 1 MB/);
    const roomy = place(plan, fleetWith(100 << 20), asked);
    assert.equal(roomy.decisions.find(({ vnode: id }) => id === "v2")?.pnode, "a");
    assert.equal(roomy.torn, undefined);
    const onA = roomy.decisions.filter(({ pnode }) => pnode === "a");
    assert.equal(onA.length, 1, "what follows its group leaves no room for a third");
  });

  it("puts no more VNodes on a PNode than its room record can name", () => {
    const vnodes = Array.from({ length: 30 }, (_, i) => vnode(`v${i}`, { memoryBytes: 1 }));
    const nodes = [node("a", { hosts: new Map([["other", claimsMax - 10]]) })];
    const { decisions, unplaced } = place(chain(vnodes), new Fleet(nodes), policy());
    assert.deepEqual([decisions.length, unplaced.length], [10, 20]);
  });

  it("moves only what has lost its place", () => {
    const nodes = ["a", "b", "c"].map((id) => node(id));
    const plan = chain(Array.from({ length: 6 }, (_, i) => vnode(`v${i}`)));
    const first = places(plan, nodes);
    const lost = first.get("v0");
    const current = new Map(Array.from(first).filter(([, pnode]) => pnode !== lost) as [VNodeId, PNodeId][]);
    const rest = nodes.filter((one) => one.id !== lost);
    const again = place(
      plan,
      new Fleet(rest),
      policy({ numericsClass: "avx2", current: new Map(Array.from(current, ([id, pnode]) => [id, [pnode]])) }),
    );
    const moved = Array.from(first)
      .filter(([, pnode]) => pnode === lost)
      .map(([id]) => id);
    assert.deepEqual(new Set(again.decisions.map((one) => one.vnode as string)), new Set(moved));
    assert.equal(again.unplaced.length, 0);
  });

  it("puts no more copies on a PNode than it has room for, wherever it was found", () => {
    // Those that come and go are looked at last, for copies that found no place elsewhere.
    const small = { memoryFreeBytes: 100 << 20 };
    const steady = ["a", "b", "c"].map((id) => node(id, small));
    const spare = ["x", "y", "z"].map((id) => node(id, { ...small, flapping: true }));
    const plan = chain(["v0", "v1", "v2"].map((id) => vnode(id)));
    const { decisions, unplaced } = place(plan, new Fleet([...steady, ...spare]), policy({ copies: 2 }));
    assert.deepEqual(unplaced, []);
    assert.equal(new Set(decisions.map(({ pnode }) => pnode)).size, 6, "one for each");
  });

  it("puts copies of a VNode on PNodes of different owners, and says so when there is none", () => {
    const mine = [node("a", { owner: "ann" }), node("b", { owner: "ann" })];
    const alone = place(chain([vnode("v0")]), new Fleet(mine), policy({ copies: 2 }));
    assert.equal(alone.decisions.length, 1);
    assert.match(alone.unplaced[0]?.reason ?? "", /another owner/);
    const both = place(
      chain([vnode("v0")]),
      new Fleet([...mine, node("c", { owner: "bob", gflops: 1 })]),
      policy({ copies: 2 }),
    );
    assert.deepEqual(
      new Set(both.decisions.map((one) => (one.pnode === "c" ? "bob" : "ann"))),
      new Set(["ann", "bob"]),
    );
  });

  it("chooses one numerics class and keeps to it", () => {
    const nodes = [
      node("a", { gflops: 500, numerics: [{ engine: "native", class: "avx512" }] }),
      ...["b", "c", "d"].map((id) => node(id, { gflops: 400 })),
    ];
    const plan = chain(Array.from({ length: 8 }, (_, i) => vnode(`v${i}`)));
    const fresh = place(plan, new Fleet(nodes), policy());
    assert.equal(fresh.numericsClass, "avx2");
    assert.ok(!fresh.decisions.some((one) => one.pnode === "a"));
    const fixed = place(plan, new Fleet(nodes), policy({ numericsClass: "sse" }));
    assert.match(fixed.unplaced[0]?.reason ?? "", /class sse, in which it began; none of 4 PNodes computes in it/);
  });

  it("never uses a PNode whose build computes other bits, and names the versions when nobody else is there", () => {
    const others = [node("a", { gflops: 500, bits: 2 }), node("b", { gflops: 400, bits: 3 })];
    const plan = chain([vnode("v0"), vnode("v1")]);
    const mixed = place(plan, new Fleet([...others, node("c", { gflops: 1 })]), policy());
    assert.deepEqual(new Set(mixed.decisions.map((one) => one.pnode as string)), new Set(["c"]));
    const alone = place(plan, new Fleet(others), policy());
    assert.match(alone.unplaced[0]?.reason ?? "", /^needs version 1 of the bits; the 2 PNodes have 2, 3: update/);
  });

  it("says exactly what is missing", () => {
    const gpu = (id: string, gpus: number, free: number) =>
      node(id, {
        gpus: Array(gpus).fill(16 * gigabyte),
        gpusFree: free,
        hosts: free < gpus ? new Map([["s4", 1]]) : new Map(),
      });
    const nodes = [gpu("a", 1, 1), gpu("b", 2, 0)];
    const needs = (changes: Partial<typeof requirementsNone>, more: Partial<Policy> = {}) =>
      place(
        chain([vnode("v0", { memoryBytes: gigabyte })]),
        new Fleet(nodes),
        policy({ requirements: { ...requirementsNone, ...changes }, ...more }),
      ).unplaced[0]?.reason;
    const nextFree = () => "next frees when session s4 ends";
    assert.equal(
      needs({ gpus: 2, gpuMemoryBytes: 16 * gigabyte }, { nextFree }),
      "needs 2 GPUs with 16 GB; 1 free of 3; next frees when session s4 ends",
    );
    assert.equal(needs({ region: "moon" }), "needs the region moon; none of 2 PNodes is there");
    assert.equal(needs({ trust: "trusted" }), "needs trust level trusted; none of 2 PNodes has it");
    assert.equal(needs({ cpus: 64 }), "needs 64 cores; the most that one of 2 PNodes lends is 4");
    assert.equal(needs({ memoryBytes: 100 * gigabyte }), "needs a PNode with 100 GB of memory; the largest has 8 GB");
    const empty = place(chain([vnode("v0")]), new Fleet([]), policy());
    assert.match(empty.unplaced[0]?.reason ?? "", /no PNode is online/);
    const tight = place(chain([vnode("v0", { memoryBytes: 9 * gigabyte })]), new Fleet(nodes), policy());
    assert.match(
      tight.unplaced[0]?.reason ?? "",
      /needs 9 GB of memory; the most that is free on one of 2 PNodes is 8 GB/,
    );
  });

  it("never breaks a hard constraint on random fleets", () => {
    const random = seeded(11);
    for (let instance = 0; instance < 40; instance++) {
      const nodes = volunteers(60, random);
      const plan = chain(
        Array.from({ length: 30 }, (_, i) =>
          vnode(`v${i}`, { flops: 1e8 + random() * 4e9, memoryBytes: random() * 3 * gigabyte }),
        ),
      );
      const requirements = {
        ...requirementsNone,
        gpus: 1,
        gpuMemoryBytes: 16 * gigabyte,
        region: "eu",
        maxPricePerHour: 0,
      };
      const { decisions, unplaced, numericsClass } = place(plan, new Fleet(nodes), policy({ requirements }));
      assert.equal(decisions.length + unplaced.length, 30);
      const used = new Map<string, number>();
      for (const decision of decisions) {
        const host = nodes.find((one) => one.id === decision.pnode) as FleetNode;
        assert.equal(host.region, "eu");
        assert.equal(host.numerics[0]?.class, numericsClass);
        assert.ok(host.gpus.filter((memory) => memory >= 16 * gigabyte).length >= 1);
        const memory = plan.vnodes.find((one) => one.id === decision.vnode)?.memoryBytes as number;
        used.set(host.id, (used.get(host.id) ?? 0) + memory);
      }
      for (const [id, memory] of used)
        assert.ok(memory <= (nodes.find((one) => one.id === id)?.memoryFreeBytes as number));
    }
  });

  it("uses a flapping PNode only when the others do not suffice", () => {
    const nodes = [node("a", { flapping: true, gflops: 500 }), node("b"), node("c")];
    const where = places(chain([vnode("v0"), vnode("v1")]), nodes);
    assert.ok(!new Set(where.values()).has("a"));
  });

  it("gives newcomers a small share, however many there are and whatever they claim", () => {
    const plan = chain(Array.from({ length: 12 }, (_, i) => vnode(`v${i}`)));
    const known = ["a", "b", "c"].map((id) => node(id));
    for (const count of [1, 2, 5, 40]) {
      const boasters = Array.from({ length: count }, (_, i) => node(`x${i}`, { newcomer: true, gflops: 2_000_000 }));
      const where = places(plan, [...known, ...boasters]);
      assert.equal(where.size, 12);
      const taken = [...where.values()].filter((id) => id.startsWith("x")).length;
      assert.ok(taken >= 1 && taken <= 3, `${count} newcomers got ${taken} of 12`);
    }
    const single = places(chain([vnode("only")]), [...known, node("x", { newcomer: true, gflops: 2_000_000 })]);
    assert.match(single.get("only") as string, /[abc]/);
  });

  it("gives many machines of one owner, or of one network, no more than a single one where strangers have room", () => {
    const plan = chain(Array.from({ length: 20 }, (_, i) => vnode(`v${i}`)));
    const strangers = Array.from({ length: 6 }, (_, i) => node(`a${i}`, { newcomer: true, network: `192.0.${i}` }));
    const boast = { newcomer: true, gflops: 2_000_000 };
    const armies: Partial<FleetNode>[] = [{ owner: "mallory" }, { network: "198.51.100" }];
    for (const army of armies) {
      const sybils = Array.from({ length: 50 }, (_, i) => node(`x${i}`, { ...boast, ...army }));
      for (const others of [strangers, strangers.map((one) => ({ ...one, newcomer: false }))]) {
        const where = places(plan, [...others, ...sybils]);
        const taken = [...where.values()].filter((id) => id.startsWith("x")).length;
        assert.equal(where.size, 20);
        assert.ok(taken >= 1 && taken <= 2, `${Object.keys(army)}: they got ${taken} of 20`);
      }
    }
  });

  it("counts what machines of one owner host already", () => {
    const plan = chain(Array.from({ length: 20 }, (_, i) => vnode(`v${i}`)));
    const sybils = ["x", "y", "z"].map((id) => node(id, { newcomer: true, owner: "mallory", gflops: 2_000_000 }));
    const others = ["a", "b"].map((id) => node(id));
    const [v0, v1] = plan.vnodes.map(({ id }) => id) as [VNodeId, VNodeId];
    const current = new Map([
      [v0, ["x" as PNodeId]],
      [v1, ["y" as PNodeId]],
    ]);
    const where = places(plan, [...others, ...sybils], { current });
    assert.deepEqual([...new Set(where.values())].sort(), ["a", "b"]);
  });

  it("believes results alone in sessions that are checked, and says who has none and why it is taken all the same", () => {
    const plan = chain(Array.from({ length: 10 }, (_, i) => vnode(`v${i}`)));
    const known = node("a", { trust: "known", memoryFreeBytes: 8 * (64 << 20) });
    const workers = ["x", "y"].map((id) => node(id, { gflops: 500, owner: "mallory" }));
    const on = (nodes: readonly FleetNode[], isChecked: boolean) => {
      const { decisions } = place(plan, new Fleet(nodes), policy(isChecked ? { checked: "sampled" } : {}));
      return decisions.filter(({ pnode }) => pnode !== "a");
    };
    assert.ok(on([known, ...workers], false).length > 5, "they have worked");
    const few = on([{ ...known, memoryFreeBytes: gigabyte }, ...workers], true);
    assert.deepEqual([few.length, few[0]?.reason.endsWith("; a newcomer, not proven yet")], [1, true]);
    const more = on([known, ...workers], true);
    assert.ok(more.length >= 2 && more.every(({ reason }) => reason.endsWith("but nobody else has room")));
  });

  it("places everything on newcomers where nobody else is or has room", () => {
    const plan = chain(Array.from({ length: 6 }, (_, i) => vnode(`v${i}`)));
    const newcomers = ["x", "y"].map((id) => node(id, { newcomer: true }));
    assert.equal(places(plan, newcomers).size, 6);
    const full = node("a", { memoryFreeBytes: 64 << 20 });
    assert.equal(places(plan, [full, ...newcomers]).size, 6);
  });

  it("gives a lost copy to a newcomer where nobody else may have it", () => {
    const plan = chain([vnode("v")]);
    const nodes = [node("a"), node("x", { newcomer: true })];
    const current = new Map([["v" as VNodeId, ["a" as PNodeId]]]);
    const { decisions } = place(plan, new Fleet(nodes), policy({ copies: 2, current }));
    assert.deepEqual(
      decisions.map(({ copy, pnode }) => ({ copy, pnode })),
      [{ copy: 1, pnode: "x" }],
    );
  });

  it("computes in a class of machines that are known, if there are any", () => {
    const exotic = { numerics: [{ engine: "native", class: "exotic" }], newcomer: true, gflops: 2_000_000 };
    const nodes = [node("a"), ...["x", "y", "z"].map((id) => node(id, exotic))];
    assert.equal(place(chain([vnode("v"), vnode("w")]), new Fleet(nodes), policy()).numericsClass, "avx2");
  });

  it("moves a running session only when that pays", () => {
    const plan = chain(Array.from({ length: 4 }, (_, i) => vnode(`v${i}`, { flops: 5e9 })));
    const current = new Map(plan.vnodes.map((one) => [one.id, ["a" as PNodeId]]));
    const running = policy({ numericsClass: "avx2", current });
    const nodes = [node("a", { hosts: new Map([["s1", 4]]) }), node("b"), node("c"), node("d")];
    const moves = (fleet: readonly FleetNode[], stepsLeft: number) =>
      atOnce(shouldMove(plan, new Fleet(fleet), running, { stepsLeft, replaySteps: 20 }, unhurried()));
    const long = moves(nodes, 10_000);
    assert.ok(long && long.decisions.length >= 2, "three idle PNodes shorten a long run");
    assert.equal(moves(nodes, 5), undefined);
    assert.equal(moves(nodes.slice(0, 1), 10_000), undefined);
  });

  it("spreads a session again that asks for more PNodes than were left, once others are there", () => {
    const plan = chain(["v0", "v1", "v2", "v3"].map((id) => vnode(id)));
    const current = new Map(plan.vnodes.map((one) => [one.id, ["a" as PNodeId]]));
    const moves = (spread: number, ...others: string[]) => {
      const fleet = new Fleet([node("a", { hosts: new Map([["s1", 4]]) }), ...others.map((id) => node(id))]);
      const running = policy({ numericsClass: "avx2", current, spread });
      const move = atOnce(shouldMove(plan, fleet, running, { stepsLeft: 5, replaySteps: 20 }, unhurried()));
      return move && new Set([...move.decisions.map(({ pnode }) => pnode), "a"]).size;
    };
    assert.equal(moves(2, "b"), 2);
    assert.equal(moves(3, "b", "c"), 3);
    assert.equal(moves(3, "b"), 2, "as far as there are any");
    assert.equal(moves(2), undefined, "nobody else is there");
    assert.equal(moves(1, "b"), undefined, "five steps are not worth a move");
  });

  it("brings a group together again that was parted in the middle of a move", () => {
    const plan = { ...chain(["v0", "v1", "v2"].map((id) => vnode(id))), colocations: [["v1", "v2"] as VNodeId[]] };
    const at = (...pnodes: string[]) => new Map(plan.vnodes.map(({ id }, i) => [id, [pnodes[i] as PNodeId]] as const));
    const moves = (current: Policy["current"], freeOnA: number) => {
      const fleet = new Fleet([node("a", { memoryFreeBytes: freeOnA }), node("b"), node("c", { memoryFreeBytes: 0 })]);
      const running = policy({ numericsClass: "avx2", current });
      const move = atOnce(shouldMove(plan, fleet, running, { stepsLeft: 5, replaySteps: 20 }, unhurried()));
      return move?.decisions.map((one) => `${one.vnode} to ${one.pnode}`);
    };
    assert.equal(moves(at("c", "a", "a"), gigabyte), undefined, "five steps are not worth a move");
    assert.deepEqual(moves(at("c", "a", "b"), gigabyte), ["v2 to a"]);
    assert.deepEqual(moves(at("c", "a", "b"), 0), ["v1 to b"], "no room beside the first: all where there is some");
    assert.equal(moves(at("b", "c", "a"), 0)?.length, 2);
  });
});
