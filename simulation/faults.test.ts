import assert from "node:assert/strict";
import { test } from "node:test";
import { hasCode } from "../src/core/errors.ts";
import { sha256 } from "../src/core/hash.ts";
import { every, sleep } from "../src/core/world.ts";
import { updateItem } from "../src/store/records/update.ts";
import { aimed, drawAims, drawPlan, type FaultPlan, noFaults } from "./faults.ts";
import { inject } from "./injector.ts";
import { SimulatedBlobs } from "./world/blobs.ts";
import { SimulatedStore } from "./world/store.ts";
import { Wire } from "./world/wire.ts";
import { type Host, SimulatedWorld } from "./world/world.ts";

const fleet = { pnodes: ["p1", "p2", "p3"], orchestrators: ["o1", "o2"] };

function toyWorld(seed: number) {
  const world = new SimulatedWorld(seed);
  return { world, wire: new Wire(world), store: new SimulatedStore(world), blobs: new SimulatedBlobs(world) };
}

/** Starts the whole fleet, and what the plan does to it. */
function runUnder(
  plan: FaultPlan,
  toys: ReturnType<typeof toyWorld>,
  start: (name: string) => void,
  leave: (name: string) => void = () => {},
): void {
  for (const name of [...fleet.pnodes, ...fleet.orchestrators]) start(name);
  const quiet = { hidden: new Set<never>(), busy: () => fleet.pnodes, checkpoints: () => [], line: () => [] };
  inject(plan, { ...toys, ...quiet, start, leave });
}

/** Toy hosts that count in the store, one update a time, through whatever the plan does to them. */
async function count(plan: FaultPlan, target: number) {
  const toys = toyWorld(plan.seed);
  const { world, store } = toys;
  let accepted = 0;
  store.onWrite(() => {
    accepted += 1;
  });
  const start = (name: string) => {
    const host = world.start(name);
    const view = store.view(host);
    const work = async () => {
      let done = false;
      while (!done) {
        await sleep(host.world.timers, 20);
        const next = (current?: { n: number }) =>
          (current?.n ?? 0) < target ? { n: (current?.n ?? 0) + 1 } : undefined;
        const result = await updateItem<{ n: number }>(view, "counter", next, host.world).catch(() => undefined);
        done = result?.record?.n === target;
      }
    };
    void work();
  };
  runUnder(plan, toys, start, (name) => world.host(name)?.crash());
  const finished = () => accepted >= target && world.time.nowMs >= plan.windowMs;
  const end = await world.time.run(finished, 600_000);
  const final = JSON.parse((await store.inner.get("counter"))?.value ?? "{}").n;
  return { world, end, accepted, final };
}

test("counting through the faults of any plan loses no update and repeats none", async () => {
  for (let seed = 1; seed <= 10; seed++) {
    const { end, accepted, final, world } = await count(drawPlan(seed, fleet), 200);
    assert.equal(end, "finished", `seed ${seed}`);
    assert.deepEqual([accepted, final], [200, 200], `seed ${seed}`);
    assert.ok(world.trace.faultCount > 0, `seed ${seed} has faults`);
  }
});

test("the same seed draws the same plan and gives the same trace", async () => {
  assert.deepEqual(drawPlan(5, fleet), drawPlan(5, fleet));
  assert.notDeepEqual(drawPlan(5, fleet), drawPlan(6, fleet));
  const hashes = [await count(drawPlan(5, fleet), 50), await count(drawPlan(5, fleet), 50)].map(
    (run) => run.world.trace.hash,
  );
  assert.equal(hashes[0], hashes[1]);
});

test("every kind of fault is drawn within a few dozen seeds", () => {
  const kinds = new Set<string>();
  for (let seed = 1; seed <= 60; seed++) for (const { fault } of drawPlan(seed, fleet).timed) kinds.add(fault.kind);
  assert.equal(kinds.size, 10);
});

const aims = ["line lost", "cut off", "deaf"] as const;

test("some worlds draw aimed faults, most do not", () => {
  const drawn = Array.from({ length: 200 }, (_, seed) => drawAims(seed));
  for (const kind of aims) {
    const count = drawn.filter((kinds) => kinds.includes(kind)).length;
    assert.ok(count >= 8 && count <= 50, `${count} of 200 worlds have ${kind}`);
  }
});

test("aimed faults come on top of a plan's own, within its window and in order", () => {
  for (let seed = 1; seed <= 20; seed++) {
    const plan = drawPlan(seed, fleet);
    assert.deepEqual(aimed(plan, fleet, []), plan);
    const { timed } = aimed(plan, fleet, aims);
    const times = timed.map(({ atMs }) => atMs);
    assert.deepEqual(
      times,
      times.toSorted((a, b) => a - b),
    );
    assert.ok(times.every((atMs) => atMs < plan.windowMs));
    for (const kind of aims)
      assert.ok(timed.filter(({ fault }) => fault.kind === kind).length >= 2, `seed ${seed} has ${kind}`);
    for (const own of plan.timed) assert.ok(timed.includes(own));
  }
});

test("a line is lost with its owner, whoever is deaf hears of nothing, and all of it heals", async () => {
  const world = new SimulatedWorld(1);
  const [wire, store, blobs] = [new Wire(world), new SimulatedStore(world), new SimulatedBlobs(world)];
  const start = (name: string) => void world.start(name);
  for (const name of [...fleet.pnodes, ...fleet.orchestrators]) start(name);
  const host = world.host("o1") as Host;
  const heard: string[] = [];
  store.view(host).watch("session/", (keys) => void heard.push(...keys));
  store.view(host).watch("vnode/", (keys) => void heard.push(...keys));
  const hash = sha256("a state");
  const plan: FaultPlan = {
    ...noFaults(1),
    windowMs: 1_000,
    timed: [
      { atMs: 10, fault: { kind: "line lost", choice: 0, durationMs: 100 } },
      { atMs: 10, fault: { kind: "deaf", host: "o1", prefix: "session/", durationMs: 500 } },
      { atMs: 10, fault: { kind: "cut off", host: "busy/0.5", from: fleet.orchestrators, durationMs: 9_000 } },
    ],
  };
  inject(plan, {
    hidden: new Set(),
    ...{ world, wire, store, blobs, start, busy: () => ["p2"], checkpoints: () => [], leave: () => {} },
    line: () => [{ hash, owner: "p1" }],
  });
  const write = (key: string) => void store.write(host, key, "{}", 0);
  world.time.after(50, () => write("session/early"));
  world.time.after(50, () => write("vnode/early"));
  world.time.after(700, () => write("session/late"));
  await world.time.run(() => world.time.nowMs >= 50, 60);
  assert.ok(blobs.damaged.has(hash));
  assert.equal(world.host("p1")?.alive, false);
  const reaches = (from: string, to: string) => !wire.isBlocked(world.host(from) as Host, world.host(to) as Host);
  assert.deepEqual([reaches("p2", "o1"), reaches("o2", "p2"), reaches("p2", "p3")], [false, false, true]);
  await world.time.run(() => false, 1e6);
  assert.deepEqual(heard, ["vnode/early", "session/late"]);
  assert.equal(world.host("p1")?.alive, true);
  assert.deepEqual([reaches("p2", "o1"), reaches("o2", "p2")], [true, true]);
});

test("a store reply that is lost reports an unknown outcome although the write is there", async () => {
  const world = new SimulatedWorld(1);
  const store = new SimulatedStore(world);
  store.faults = { ...store.faults, replyLost: 1 };
  let error: unknown;
  store
    .view(world.start("o1"))
    .put("key", "value", 0)
    .catch((thrown) => {
      error = thrown;
    });
  await world.time.run(() => error !== undefined, 10_000);
  assert.ok(hasCode(error, "unavailable"));
  assert.equal((await store.inner.get("key"))?.value, "value");
});

test("when the faults end, every host is up, nobody is paused or cut off, and rates are zero", async () => {
  const plan = drawPlan(9, fleet);
  const toys = toyWorld(9);
  const { world, wire, store, blobs } = toys;
  const start = (name: string) => void every(world.start(name).world.timers, 100, () => {});
  runUnder(plan, toys, start);
  await world.time.run(() => world.time.nowMs > plan.windowMs + 1, 1e6);
  for (const host of world.hosts) {
    assert.ok(host.alive && !host.paused && host.slowness === 1, host.name);
    for (const other of world.hosts) assert.equal(wire.isBlocked(host, other), false);
  }
  assert.equal(store.outages, 0);
  assert.deepEqual([wire.faults, store.faults, blobs.faults], [noFaults(1).wire, noFaults(1).store, noFaults(1).blobs]);
});
