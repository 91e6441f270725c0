import assert from "node:assert/strict";
import { test } from "node:test";
import { sleep } from "../../src/core/world.ts";
import { SimulatedWorld } from "./world.ts";

test("events run in the order of their time, then of their scheduling, with promises settled in between", async () => {
  const world = new SimulatedWorld(1);
  const host = world.start("a");
  const seen: string[] = [];
  const task = async (name: string, delayMs: number) => {
    await sleep(host.world.timers, delayMs);
    seen.push(name);
    await null;
    await null;
    seen.push(`${name}'`);
  };
  void task("late", 20);
  void task("first", 10);
  void task("second", 10);
  assert.equal(await world.time.run(() => false, 1_000), "idle");
  assert.deepEqual(seen, ["first", "first'", "second", "second'", "late", "late'"]);
  assert.equal(world.time.nowMs, 20);
});

test("a paused host's timers wait until it resumes, a crashed one's never fire", async () => {
  const world = new SimulatedWorld(1);
  const paused = world.start("paused");
  const crashed = world.start("crashed");
  const fired: string[] = [];
  paused.after(10, () => fired.push(`paused at ${world.time.nowMs}`));
  const cancel = paused.after(11, () => fired.push("cancelled"));
  crashed.after(10, () => fired.push("crashed"));
  world.time.after(5, () => {
    paused.pause();
    crashed.crash();
  });
  world.time.after(50, () => {
    cancel();
    paused.resume();
  });
  await world.time.run(() => false, 1_000);
  assert.deepEqual(fired, ["paused at 50"]);
});

test("an error thrown by a host's callback is kept as that host's failure", async () => {
  const world = new SimulatedWorld(1);
  world.start("a").after(5, () => {
    throw new Error("boom");
  });
  await world.time.run(() => false, 1_000);
  assert.equal(world.failures.length, 1);
  assert.equal(world.failures[0]?.host, "a");
});

test("a wall clock may jump back while the monotonic one never does", () => {
  const host = new SimulatedWorld(3).start("a");
  const { clock } = host.world;
  const [wall, monotonic] = [clock.wallMs(), clock.monotonicMs()];
  host.jumpClock(-3_600_000, -5);
  assert.equal(clock.wallMs(), wall - 3_600_000);
  assert.equal(clock.monotonicMs(), monotonic);
});

test("a restarted host draws other numbers, and the same seed draws the same", () => {
  const draw = (seed: number) => {
    const world = new SimulatedWorld(seed);
    const first = world.start("a");
    const one = first.world.chance.uniform();
    first.crash();
    return [one, world.start("a").world.chance.uniform()];
  };
  assert.deepEqual(draw(5), draw(5));
  assert.notDeepEqual(draw(5), draw(6));
  const [before, after] = draw(5);
  assert.notEqual(before, after);
});
