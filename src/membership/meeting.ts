// How a member finds others: while it knows of nobody, all places in turn, a few side by side, since most of what was
// remembered may be gone. Later one place now and then that may not be a member, in case a split has made two networks.

import { sleep, type World } from "../core/world.ts";

export interface MeetingOptions {
  readonly world: Pick<World, "clock" | "timers" | "chance">;
  /** Where somebody may be. */
  readonly places: () => readonly string[];
  /** How many others are known to be here. */
  readonly here: () => number;
  readonly ask: (place: string) => Promise<void>;
  /** Between two questions of somebody who knows others. */
  readonly metMs: number;
  readonly signal: AbortSignal;
}

/** Between two rounds of somebody who knows nobody: at first, and at last. */
const lonelyMs = 1_000;
const lonelyMsMax = 30_000;
/** Whether it has lost everybody is looked at this often. */
const lookMs = 2_000;
/** A place that does not answer takes seconds. */
const asksAtOnce = 3;

export async function meet(options: MeetingOptions): Promise<void> {
  const { world, here, metMs, signal } = options;
  let pauseMs = lonelyMs;
  while (!signal.aborted) {
    if (here() > 0) {
      await askSome(options, 1);
      pauseMs = lonelyMs;
      const endMs = world.clock.monotonicMs() + about(metMs, world);
      while (here() > 0 && world.clock.monotonicMs() < endMs && !signal.aborted)
        await sleep(world.timers, lookMs, signal);
    } else {
      await askSome(options, Number.POSITIVE_INFINITY);
      if (here() > 0) continue;
      await sleep(world.timers, about(pauseMs, world), signal);
      pauseMs = Math.min(lonelyMsMax, pauseMs * 1.5);
    }
  }
}

/** Each once, in any order, until somebody was found. */
async function askSome({ world, places, here, ask, signal }: MeetingOptions, count: number): Promise<void> {
  const left = shuffled(places(), world).slice(0, count);
  const before = here();
  const lane = async () => {
    for (let place = left.pop(); place !== undefined && !signal.aborted; place = left.pop()) {
      await ask(place).catch(() => {});
      if (before === 0 && here() > 0) return;
    }
  };
  await Promise.all(Array.from({ length: asksAtOnce }, lane));
}

function about(ms: number, { chance }: Pick<World, "chance">): number {
  return ms * (0.75 + chance.uniform() / 2);
}

function shuffled(places: readonly string[], { chance }: Pick<World, "chance">): string[] {
  return [...new Set(places)]
    .map((place) => ({ place, weight: chance.uniform() }))
    .sort((one, other) => one.weight - other.weight)
    .map(({ place }) => place);
}
