// A world for tests in which time moves on to the next timer whenever nothing else is left to do.

import { strict as assert } from "node:assert";
import { setImmediate as settled } from "node:timers/promises";
import { silentLog, type World } from "./world.ts";

export function virtualWorld() {
  let nowMs = 0;
  let count = 0;
  let timers: { atMs: number; order: number; callback: () => void }[] = [];
  const world: World = {
    clock: { wallMs: () => nowMs, monotonicMs: () => nowMs },
    timers: {
      after: (delayMs, callback) => {
        const timer = { atMs: nowMs + delayMs, order: count++, callback };
        timers.push(timer);
        return () => {
          timers = timers.filter((other) => other !== timer);
        };
      },
    },
    chance: { bytes: (length) => new Uint8Array(length).fill(++count), uniform: () => 0.5 },
    log: silentLog,
  };
  const until = async (isDone: () => boolean, limitMs = 120_000) => {
    const endMs = nowMs + limitMs;
    for (;;) {
      for (let turn = 0; turn < 3; turn++) await settled();
      if (isDone()) return;
      const [next] = timers.sort((a, b) => a.atMs - b.atMs || a.order - b.order);
      assert.ok(next !== undefined && next.atMs <= endMs, `it happens within ${limitMs} ms`);
      timers = timers.filter((other) => other !== next);
      nowMs = Math.max(nowMs, next.atMs);
      next.callback();
    }
  };
  /** Lets so much time pass, with everything that happens in it. */
  const pass = async (ms: number) => {
    let over = false;
    world.timers.after(ms, () => {
      over = true;
    });
    await until(() => over, ms);
  };
  return { world, until, pass };
}
