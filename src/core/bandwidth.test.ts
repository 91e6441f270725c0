import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import { Bandwidth } from "./bandwidth.ts";
import { silentLog, type World } from "./world.ts";

describe("a limit of bandwidth", () => {
  it("spreads what is sent over the time it may take", async () => {
    let nowMs = 1_000;
    const world: World = {
      clock: { wallMs: () => nowMs, monotonicMs: () => nowMs },
      timers: {
        after: (delayMs, callback) => {
          nowMs += delayMs;
          queueMicrotask(callback);
          return () => {};
        },
      },
      chance: { bytes: (count) => new Uint8Array(count), uniform: () => 0.5 },
      log: silentLog,
    };
    const { signal } = new AbortController();
    const limited = new Bandwidth(world, 1_000);
    for (let sent = 0; sent < 10; sent++) await limited.take(500, signal);
    // 5,000 bytes at 1,000 a second, a burst of a quarter of a second for free.
    assert.equal(nowMs - 1_000, 4_750);
    const free = new Bandwidth(world, 0);
    await free.take(1e12, signal);
    assert.equal(nowMs - 1_000, 4_750);
  });
});
