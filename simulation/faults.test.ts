import assert from "node:assert/strict";
import { test } from "node:test";
import { hasCode } from "../src/core/errors.ts";
import { every, sleep } from "../src/core/world.ts";
import { updateItem } from "../src/store/update.ts";
import { SimulatedBlobs } from "./blobs.ts";
import { drawPlan, type FaultPlan, noFaults } from "./faults.ts";
import { inject } from "./injector.ts";
import { SimulatedStore } from "./store.ts";
import { Wire } from "./wire.ts";
import { SimulatedWorld } from "./world.ts";

const fleet = { pnodes: ["p1", "p2", "p3"], orchestrators: ["o1", "o2"] };

/** Toy hosts that count in the store, one update a time, through whatever the plan does to them. */
async function count(plan: FaultPlan, target: number) {
  const world = new SimulatedWorld(plan.seed);
  const [wire, store, blobs] = [new Wire(world), new SimulatedStore(world), new SimulatedBlobs(world)];
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
  for (const name of [...fleet.pnodes, ...fleet.orchestrators]) start(name);
  inject(plan, {
    world,
    wire,
    store,
    blobs,
    start,
    busy: () => fleet.pnodes,
    checkpoints: () => [],
    leave: (name) => world.host(name)?.crash(),
  });
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
  const world = new SimulatedWorld(9);
  const [wire, store, blobs] = [new Wire(world), new SimulatedStore(world), new SimulatedBlobs(world)];
  const start = (name: string) => void every(world.start(name).world.timers, 100, () => {});
  for (const name of [...fleet.pnodes, ...fleet.orchestrators]) start(name);
  inject(plan, { world, wire, store, blobs, start, busy: () => fleet.pnodes, checkpoints: () => [], leave: () => {} });
  await world.time.run(() => world.time.nowMs > plan.windowMs + 1, 1e6);
  for (const host of world.hosts) {
    assert.ok(host.alive && !host.paused && host.slowness === 1, host.name);
    for (const other of world.hosts) assert.equal(wire.isBlocked(host, other), false);
  }
  assert.equal(store.outages, 0);
  assert.deepEqual([wire.faults, store.faults, blobs.faults], [noFaults(1).wire, noFaults(1).store, noFaults(1).blobs]);
});
