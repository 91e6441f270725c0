// The machine's own clocks, behind the interface everything else is given.

import type { Clock } from "../core/world.ts";

export const realClock: Clock = {
  wallMs: () => Date.now(),
  monotonicMs: () => performance.now(),
};
