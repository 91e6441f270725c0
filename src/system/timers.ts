// The machine's own timers, behind the interface everything else is given.

import type { Timers } from "../core/world.ts";

/** setTimeout takes no more; a longer delay would fire at once. */
const delayMsMax = 2_147_483_647;

export const realTimers: Timers = {
  after(delayMs, callback) {
    const handle = setTimeout(callback, Math.min(Math.max(delayMs, 0), delayMsMax));
    return () => clearTimeout(handle);
  },
};

/** Timers that never keep the process alive, for background work such as measurements. */
export const backgroundTimers: Timers = {
  after(delayMs, callback) {
    const handle = setTimeout(callback, Math.min(Math.max(delayMs, 0), delayMsMax));
    handle.unref();
    return () => clearTimeout(handle);
  },
};
