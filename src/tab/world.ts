// A browser's clock, timers and chance. All of it runs in dedicated workers, whose timers browsers do not slow down when the page
// is hidden.

import type { Chance, Clock, Log, LogLevel, Timers, World } from "../core/world.ts";

export const tabClock: Clock = { wallMs: () => Date.now(), monotonicMs: () => performance.now() };

/** setTimeout takes no more; a longer delay would fire at once. */
const delayMsMax = 2_147_483_647;

export const tabTimers: Timers = {
  after(delayMs, callback) {
    const handle = setTimeout(callback, Math.min(Math.max(delayMs, 0), delayMsMax));
    return () => clearTimeout(handle);
  },
};

/** The web gives no more at once. */
const randomBytesMax = 65_536;

export const tabChance: Chance = {
  bytes(count) {
    const bytes = new Uint8Array(count);
    for (let at = 0; at < count; at += randomBytesMax)
      crypto.getRandomValues(bytes.subarray(at, Math.min(count, at + randomBytesMax)));
    return bytes;
  },
  uniform: () => (crypto.getRandomValues(new Uint32Array(1))[0] as number) / 2 ** 32,
};

/** One clock for all workers of a page; `performance.now` starts anew in each. */
export function sharedMs(): number {
  return performance.timeOrigin + performance.now();
}

export function tabWorld(tell: (level: LogLevel, line: string) => void): World {
  const log: Log = (level, message) => {
    if (level !== "debug") tell(level, message);
  };
  return { clock: tabClock, timers: tabTimers, chance: tabChance, log };
}
