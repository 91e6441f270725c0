import { strict as assert } from "node:assert";
import { it } from "node:test";
import { silentLog } from "../core/world.ts";
import type { Meter } from "./meter.ts";
import { PeerWatch } from "./peer-watch.ts";

it("a link that hangs is given up soon, though its speed was measured while a clock leapt", () => {
  let nowMs = 0;
  const due: { atMs: number; run: () => void }[] = [];
  const world = {
    clock: { wallMs: () => nowMs, monotonicMs: () => nowMs },
    timers: {
      after: (delayMs: number, run: () => void) => {
        due.push({ atMs: nowMs + delayMs, run });
        return () => {};
      },
    },
    chance: { bytes: (count: number) => new Uint8Array(count), uniform: () => 0 },
    log: silentLog,
  };
  // A byte a second, by a receipt that seemed to take ten; and what is asked for again and again adds up.
  const meter = { outstandingBytes: 50_000, bytesPerSecond: 1, pong: () => {} } as unknown as Meter;
  let lostMs: number | undefined;
  const watch = new PeerWatch(world, meter, {
    isBusy: () => true,
    stillMs: () => 0,
    ping: () => true,
    lost: () => {
      lostMs = nowMs;
    },
  });
  watch.opened();
  while (lostMs === undefined && nowMs < 600_000) {
    const next = due.shift();
    assert.ok(next !== undefined);
    nowMs = next.atMs;
    next.run();
  }
  assert.ok(lostMs !== undefined && lostMs < 30_000, `given up after ${lostMs} ms`);
});
