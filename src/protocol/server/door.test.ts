import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ManualTimers } from "../connections/timers.testing.ts";
import { Door } from "./door.ts";
import { guestLimitsDefault } from "./limits.ts";

const limits = guestLimitsDefault.door;

function stage(wasted: number) {
  const timers = new ManualTimers();
  const door = new Door(timers, limits);
  const seen: string[] = [];
  for (let count = 0; count < wasted; count++) door.wasted("a");
  const arrive = (name: string, share = "a") =>
    door.arrived(
      share === "none" ? undefined : share,
      () => seen.push(`${name} in`),
      () => seen.push(`${name} away`),
    );
  return { timers, door, seen, arrive };
}

describe("a door", () => {
  it("is open to whoever came to nothing a few times, and to everybody else whatever others do", () => {
    const { seen, arrive } = stage(limits.wastedFree - 1);
    arrive("first");
    assert.deepEqual(seen, ["first in"]);
    const flooded = stage(1_000);
    flooded.arrive("other", "b");
    flooded.arrive("on the machine itself", "none");
    assert.deepEqual(flooded.seen, ["other in", "on the machine itself in"]);
  });

  it("lets those who flood in one at a time, the last to come first, and turns away who waited in vain", () => {
    const { timers, seen, arrive } = stage(1_000);
    for (let index = 0; index < 20; index++) arrive(`hostile ${index}`);
    arrive("honest");
    assert.equal(seen.length, 0);
    timers.advance(limits.turnMaxMs);
    assert.deepEqual(seen, ["honest in"], "never later than two seconds");
    timers.advance(limits.turnMaxMs);
    assert.deepEqual(seen, ["honest in", "hostile 19 in"]);
    for (let passedMs = 0; passedMs < limits.waitMs; passedMs += limits.turnMaxMs) timers.advance(limits.turnMaxMs);
    assert.equal(seen.length, 21);
    assert.ok(seen.filter((one) => one.endsWith("away")).length > 10);
  });

  it("is one door: those of many addresses that have just begun to flood get in no faster than those of a few", () => {
    const { timers, door, seen, arrive } = stage(0);
    const shares = Array.from({ length: 100 }, (_, index) => `share ${index}`);
    for (const share of shares) for (let count = 0; count < limits.wastedFree; count++) door.wasted(share);
    for (let round = 0; round < 10; round++) for (const share of shares) arrive(`of ${share}`, share);
    for (let passedMs = 0; passedMs < 10_000; passedMs += 10) timers.advance(10);
    assert.ok(seen.length >= 100 * (10_000 / limits.turnMaxMs - 1), `each of them gets its turns: ${seen.length}`);
    assert.ok(seen.length <= 10_000 / limits.apartMs + 100, `${seen.length} in ten seconds`);
  });

  it("forgets those who have left, and by and by what they did", () => {
    const { timers, seen, arrive, door } = stage(1_000);
    arrive("hostile")();
    timers.advance(limits.turnMaxMs);
    assert.equal(seen.length, 0);
    for (let times = 0; times < 5; times++) timers.advance(limits.forgetMs);
    arrive("honest");
    assert.deepEqual(seen, ["honest in"]);
    for (let count = 0; count < limits.wastedFree; count++) door.wasted("a");
    for (let count = 0; count < limits.wastedFree; count++) door.used("a");
    arrive("of use");
    assert.deepEqual(seen, ["honest in", "of use in"]);
  });
});
