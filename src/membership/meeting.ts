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
/** Asked in a round, of perhaps a thousand that are remembered: whoever wakes up in another network does not knock everywhere at once. */
const roundMax = 12;
/** A place that does not answer takes seconds. */
const asksAtOnce = 3;
/** Whether it has lost everybody is looked at this often. */
const lookMs = 2_000;

export async function meet(options: MeetingOptions): Promise<void> {
  const { world, here, ask, metMs, signal } = options;
  const turns = new Turns(options);
  let pauseMs = lonelyMs;
  while (!signal.aborted) {
    if (here() > 0) {
      pauseMs = lonelyMs;
      const endMs = world.clock.monotonicMs() + about(metMs, world);
      while (here() > 0 && world.clock.monotonicMs() < endMs && !signal.aborted)
        await sleep(world.timers, lookMs, signal);
      const place = here() > 0 && !signal.aborted ? turns.next() : undefined;
      if (place !== undefined) await ask(place).catch(() => {});
    } else {
      await askRound(options, turns.some(roundMax));
      if (here() > 0) continue;
      await sleep(world.timers, about(pauseMs, world), signal);
      pauseMs = Math.min(lonelyMsMax, pauseMs * 1.5);
    }
  }
}

/** Until somebody was found. */
async function askRound({ here, ask, signal }: MeetingOptions, places: string[]): Promise<void> {
  const lane = async () => {
    for (let place = places.pop(); place !== undefined && !signal.aborted && here() === 0; place = places.pop())
      await ask(place).catch(() => {});
  };
  await Promise.all(Array.from({ length: asksAtOnce }, lane));
}

/** Every place comes once before any comes twice, in any order. */
class Turns {
  readonly #options: Pick<MeetingOptions, "places" | "world">;
  #left: string[] = [];

  constructor(options: Pick<MeetingOptions, "places" | "world">) {
    this.#options = options;
  }

  next(): string | undefined {
    if (this.#left.length === 0) this.#left = this.#shuffled();
    return this.#left.pop();
  }

  /** The end of one turn, not the beginning of the next. */
  some(count: number): string[] {
    const first = this.next();
    return first === undefined ? [] : [first, ...this.#left.splice(Math.max(0, this.#left.length - count + 1))];
  }

  #shuffled(): string[] {
    const { places, world } = this.#options;
    return [...new Set(places())]
      .map((place) => ({ place, weight: world.chance.uniform() }))
      .sort((one, other) => one.weight - other.weight)
      .map(({ place }) => place);
  }
}

function about(ms: number, { chance }: Pick<World, "chance">): number {
  return ms * (0.75 + chance.uniform() / 2);
}
