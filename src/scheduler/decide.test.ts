import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { PNodeId } from "../core/ids.ts";
import { book, decided, job, megabyte, minute, queue, running, started, view } from "./decide.testing.ts";
import { explain, outlook } from "./explain.ts";
import type { Held, Reason } from "./jobs.ts";
import { rulesDefault } from "./jobs.ts";
import { decayedMs, ordered } from "./order.ts";
import { requirementsNone } from "./placement/types.ts";
import { node, seeded } from "./placement.testing.ts";
import { Timeline } from "./timeline.ts";

/** A PNode that lends room for so many VNodes of 100 MB, some of them free. */
const pnode = (id: string, room: number, free = room) =>
  node(id, { memoryBytes: room * 100 * megabyte, memoryFreeBytes: free * 100 * megabyte });
const holds = (id: string, vnodes: number): Held[] => [
  { pnode: id as PNodeId, memoryBytes: vnodes * 100 * megabyte, gpus: 0 },
];

describe("the order of the queue", () => {
  const orderOf = (jobs: ReturnType<typeof job>[], use = new Map<string, number>(), nowMs = 0) =>
    ordered(jobs, { nowMs, use, weightOf: () => 1 }, rulesDefault).map(({ id }) => id);

  it("goes by class, then by who used little of late, then by age", () => {
    const jobs = [
      job("greedy", 1, { owner: "bert", submittedMs: 1 }),
      job("old", 1, { submittedMs: 0 }),
      job("young", 1, { submittedMs: 2 }),
      job("urgent", 1, { class: "urgent", owner: "bert", submittedMs: 9 }),
      job("low", 1, { class: "low", submittedMs: 0 }),
    ];
    assert.deepEqual(orderOf(jobs, new Map([["bert", 100]]), 10), ["urgent", "old", "young", "greedy", "low"]);
  });

  it("puts whoever waited too long before everybody, the oldest first", () => {
    const late = rulesDefault.mustStartMs;
    const jobs = [
      job("urgent", 1, { class: "urgent", submittedMs: late }),
      job("b", 1, { class: "low", submittedMs: 5 }),
      job("a", 1, { submittedMs: 1 }),
    ];
    assert.deepEqual(orderOf(jobs, new Map(), late + 10), ["a", "b", "urgent"]);
  });

  it("forgets what was used by half in four hours", () => {
    const hour = 60 * minute;
    const fresh = decayedMs({ fromMs: 0, toMs: 1000 }, 1000);
    assert.ok(Math.abs(fresh - 1000) < 1);
    assert.ok(Math.abs(decayedMs({ fromMs: 0, toMs: 1000 }, 1000 + 4 * hour) - fresh / 2) < 1e-6);
    assert.equal(decayedMs({ fromMs: 500 }, 100), 0);
  });
});

describe("a pass over the queue", () => {
  it("starts gangs whole or not at all, and lets a small one by where nobody suffers", () => {
    const decisions = decided({
      nodes: [pnode("p", 4, 2)],
      running: [running("r", holds("p", 2), { endMs: 20 * minute })],
      pending: [
        job("large", 3, { submittedMs: 0 }),
        job("short", 2, { submittedMs: 1 }),
        job("long", 2, { submittedMs: 2, limitMs: 60 * minute }),
      ],
    });
    // "short" ends before "large" can start; "long" would not.
    assert.deepEqual(started(decisions), ["short"]);
    const reason = decisions.waits.get("large")?.reason;
    assert.deepEqual(reason, { code: "room", atMs: 20 * minute });
  });

  it("keeps promised room away from those that start now and last too long", () => {
    const decisions = decided({
      nodes: [pnode("p", 4, 2)],
      running: [running("r", holds("p", 2), { endMs: 20 * minute })],
      pending: [job("large", 3, { submittedMs: 0 }), job("thin", 1, { submittedMs: 2, limitMs: 60 * minute })],
    });
    assert.deepEqual(started(decisions), ["thin"], "one of four is left to it, whenever the large one comes");
    assert.deepEqual(decisions.starts[0]?.kept, new Map([["p", { memoryBytes: 100 * megabyte, gpus: 0 }]]));
  });

  it("gives everybody a reservation; where that is too much to look at the first, and tells the others whom they wait behind", () => {
    const pending = Array.from({ length: 5 }, (_, i) => job(`j${i}`, 2, { submittedMs: i }));
    const blocked = {
      nodes: [pnode("p", 2, 0)],
      running: [running("r", holds("p", 2), { endMs: 5 * minute })],
      pending,
    };
    const whole = decided(blocked);
    assert.deepEqual(
      pending.map(({ id }) => whole.waits.get(id)?.reason),
      [5, 15, 25, 35, 45].map((minutes) => ({ code: "room", atMs: minutes * minute })),
    );
    const decisions = decided(blocked, { reservations: 2, effort: 0 });
    const reasons = pending.map(({ id }) => decisions.waits.get(id)?.reason);
    assert.deepEqual(reasons.slice(0, 2), [
      { code: "room", atMs: 5 * minute },
      { code: "room", atMs: 15 * minute },
    ]);
    assert.deepEqual(reasons[4], { code: "behind", job: "j0" });
    assert.equal(decisions.waits.get("j4")?.position, 5);
  });

  it("tells what can never be from what only waits, and whoever is past its limit still sits there", () => {
    const decisions = decided({
      nowMs: 100 * minute,
      nodes: [pnode("p", 4, 0)],
      running: [running("r", holds("p", 4), { endMs: 5 * minute })],
      pending: [job("huge", 5), job("some", 2, { submittedMs: 1 })],
    });
    assert.deepEqual(decisions.waits.get("huge")?.reason, { code: "never" });
    assert.deepEqual(decisions.waits.get("some")?.reason, { code: "room", atMs: 101 * minute });
    assert.deepEqual(started(decisions), []);
  });

  it("makes room for an urgent one from the youngest of lower classes that ran long enough, and for nobody else", () => {
    const fleet = {
      nowMs: 60 * minute,
      nodes: [pnode("p", 4, 0), pnode("q", 4, 0)],
      running: [
        running("old", holds("p", 4), { sinceMs: 0, endMs: 600 * minute }),
        running("young", holds("q", 4), { sinceMs: 20 * minute, endMs: 600 * minute }),
        running("new", [], { sinceMs: 55 * minute, endMs: 600 * minute }),
      ],
    };
    const urgent = job("u", 3, { class: "urgent", submittedMs: 59 * minute });
    assert.deepEqual(decided({ ...fleet, pending: [urgent] }).preempts, [{ victim: "young", for: "u" }]);
    assert.deepEqual(decided({ ...fleet, pending: [{ ...urgent, class: "high" }] }).preempts, []);
    const equal = fleet.running.map((one) => ({ ...one, class: "urgent" as const }));
    assert.deepEqual(decided({ ...fleet, running: equal, pending: [urgent] }).preempts, [], "nobody preempts its like");
    const going = fleet.running.map((one) => ({ ...one, yields: one.id === "old" }));
    assert.deepEqual(
      decided({ ...fleet, running: going, pending: [urgent] }).preempts,
      [],
      "somebody gives way already",
    );
  });

  it("never promises or starts more than there is, in random queues", () => {
    for (let seed = 1; seed <= 30; seed++) {
      const random = seeded(seed);
      const pick = (most: number) => Math.floor(random() * most);
      const nodes = Array.from({ length: 6 }, (_, i) => pnode(`p${i}`, 4, pick(5)));
      const held = nodes.map((one, i) =>
        running(`r${i}`, [{ pnode: one.id, memoryBytes: one.memoryBytes - one.memoryFreeBytes, gpus: 0 }], {
          endMs: (1 + pick(50)) * minute,
        }),
      );
      const pending = Array.from({ length: 25 }, (_, i) =>
        job(`j${i}`, 1 + pick(9), { submittedMs: i, limitMs: (5 + pick(60)) * minute }),
      );
      const decisions = decided({ nodes, running: held, pending });
      const free = new Map(nodes.map((one) => [one.id, Math.floor(one.memoryFreeBytes / (100 * megabyte))]));
      const wanted = decisions.starts.reduce((sum, { job: { demand } }) => sum + (demand?.vnodes ?? 0), 0);
      assert.ok(wanted <= Array.from(free.values()).reduce((sum, one) => sum + one, 0), `seed ${seed}`);
      assert.equal(decisions.starts.length + decisions.waits.size, pending.length);
    }
  });
});

describe("room over time", () => {
  it("is found at the earliest end from which the whole gang fits, and not twice", () => {
    const timeline = new Timeline(
      0,
      [pnode("p", 4, 0), pnode("q", 4, 0)],
      [running("a", holds("p", 4), { endMs: 10 * minute }), running("b", holds("q", 4), { endMs: 30 * minute })],
    );
    assert.equal(timeline.reserve(job("x", 4))?.atMs, 10 * minute);
    assert.equal(timeline.reserve(job("y", 8))?.atMs, 30 * minute);
    assert.equal(timeline.reserve(job("z", 1))?.atMs, 20 * minute, "between both there are ten minutes for it");
  });

  it("counts GPUs once for each PNode, and those in use as the largest", () => {
    const gigabyte = 1024 * megabyte;
    const gpus = [24 * gigabyte, 8 * gigabyte];
    const nodes = [node("p", { gpus, gpusFree: 1, memoryBytes: gigabyte, memoryFreeBytes: gigabyte })];
    const wants = (gpuMemoryBytes: number) =>
      job("x", 2, {
        policy: {
          bits: 1,
          engine: "native",
          numericsClass: "",
          requirements: { ...requirementsNone, gpus: 1, gpuMemoryBytes },
        },
      });
    const timeline = new Timeline(0, nodes, []);
    assert.deepEqual(
      timeline.fit(wants(8 * gigabyte))?.map((one) => one.gpus),
      [1],
    );
    assert.equal(timeline.fit(wants(16 * gigabyte)), undefined);
  });
});

describe("why a job waits", () => {
  const say = (reason: Reason, changes: Parameters<typeof view>[0] = {}, own = job("x", 3)) =>
    explain(own, reason, { ...view(changes), nameOf: (id) => id, callJob: (id) => `job ${id}` });

  it("is one sentence for each root cause", () => {
    assert.equal(say({ code: "needs", needs: ["a", "b"] }), "waits for job a and job b");
    assert.match(say({ code: "room" }), /no PNode is online/);
    assert.equal(
      say({ code: "room" }, { nodes: [pnode("p", 4, 1)] }),
      "needs 300 MB of memory for its 3 VNodes at once; 100 MB free of 400 MB on 1 PNode",
    );
    assert.equal(say({ code: "behind", job: "a" }), "waits behind job a, which comes first");
    assert.match(
      say({ code: "never" }, { nodes: [pnode("p", 2)] }),
      /needs 300 MB at once; the 1 that would do lend 200 MB together/,
    );
    const demanding = job("x", 1, {
      policy: { bits: 1, engine: "native", numericsClass: "", requirements: { ...requirementsNone, region: "mars" } },
    });
    assert.match(
      say({ code: "never" }, { nodes: [pnode("p", 2)] }, demanding),
      /needs the region mars; none of 1 PNode is there \(the nearest is p\)/,
    );
  });

  it("names who borrowed what", () => {
    const amounts = { cores: 0, gpus: 2, memoryBytes: 0, jobs: 1 };
    const lab = book([queue("day", { nominal: { gpus: 2 } }), queue("night", { nominal: { gpus: 1 } })], {
      a: { queue: "night", owner: "bert", epoch: 1, amounts },
    });
    const mine = job("x", 1, { queue: "day", amounts });
    const decisions = decided({ nodes: [pnode("p", 4)], books: new Map([["lab", lab]]), pending: [mine] });
    const reason = decisions.waits.get("x")?.reason as Reason;
    assert.equal(
      say(reason, { books: new Map([["lab", lab]]) }, mine),
      "needs 2 GPUs; queue day has 2 GPUs of its own, of which night has borrowed 1 GPU",
    );
  });

  it("comes with the place in line and the probable start", () => {
    assert.equal(
      outlook(3, { code: "room", atMs: 61 * minute }, minute),
      "number 3 in line; starts in 60 min 0 s or so if all keep to their limits",
    );
    assert.equal(outlook(2, { code: "behind", job: "a" }, 0), "number 2 in line");
  });
});
