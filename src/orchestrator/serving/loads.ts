// What is asked of served models at this orchestrator: requests under way and how long they wait for their first word. Told
// to the others with its sign of life, so that whoever scales a model sees what is asked of it everywhere.

import type { Clock } from "../../core/world.ts";

export interface ModelLoad {
  readonly busy: number;
  readonly waitMs: number;
}

/** Of one orchestrator; only what there is anything to say of. */
export interface Loads {
  readonly models: Readonly<Record<string, ModelLoad>>;
  /** Requests under way by replica. */
  readonly replicas: Readonly<Record<string, number>>;
}

/** A wait counts for so long after it is over. */
const rememberedMs = 30_000;

interface Asked {
  /** Since when requests wait for their first word. */
  readonly waiting: Map<number, number>;
  busy: number;
  lately: { readonly waitMs: number; readonly atMs: number } | undefined;
}

/** How a request ended: as the model or a limit ended it, by its reader, or by an error. */
export type Outcome = "stop" | "length" | "tool_calls" | "computed" | "cancelled" | "failed";

/** One request, when it is over. */
export interface Answered {
  readonly model: string;
  readonly outcome: Outcome;
  readonly promptTokens: number;
  readonly tokens: number;
  /** Until the first word; undefined if none came. */
  readonly firstMs: number | undefined;
  readonly totalMs: number;
}

export interface Request {
  /** So many more tokens of the answer have come. */
  answered(tokens: number): void;
  ended(outcome: Outcome): void;
}

export class ModelLoads {
  readonly #clock: Clock;
  readonly #asked = new Map<string, Asked>();
  readonly #watchers = new Set<(answered: Answered) => void>();
  #next = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Hears of every request when it is over. */
  watch(watcher: (answered: Answered) => void): void {
    this.#watchers.add(watcher);
  }

  /** Requests that wait for their first word, by model. */
  waiting(): Map<string, number> {
    return new Map([...this.#asked].map(([model, { waiting }]) => [model, waiting.size]));
  }

  begin(model: string, promptTokens = 0): Request {
    const id = this.#next++;
    const beganMs = this.#clock.monotonicMs();
    let tokens = 0;
    let firstMs: number | undefined;
    const asked = this.#asked.get(model) ?? { waiting: new Map(), busy: 0, lately: undefined };
    this.#asked.set(model, asked);
    asked.busy++;
    asked.waiting.set(id, beganMs);
    const answered = (count: number) => {
      tokens += count;
      const sinceMs = asked.waiting.get(id);
      if (sinceMs === undefined) return;
      asked.waiting.delete(id);
      const atMs = this.#clock.monotonicMs();
      const waitMs = atMs - sinceMs;
      firstMs = waitMs;
      const before = asked.lately && atMs - asked.lately.atMs < rememberedMs ? asked.lately.waitMs : 0;
      asked.lately = { waitMs: Math.max(waitMs, before / 2), atMs };
    };
    let isOver = false;
    return {
      answered,
      ended: (outcome) => {
        if (isOver) return;
        isOver = true;
        asked.waiting.delete(id);
        asked.busy--;
        const totalMs = this.#clock.monotonicMs() - beganMs;
        for (const watcher of this.#watchers) watcher({ model, outcome, promptTokens, tokens, firstMs, totalMs });
      },
    };
  }

  models(): Record<string, ModelLoad> {
    const nowMs = this.#clock.monotonicMs();
    const loads: Record<string, ModelLoad> = {};
    for (const [model, { waiting, busy, lately }] of this.#asked) {
      const longest = Array.from(waiting.values()).reduce((most, sinceMs) => Math.max(most, nowMs - sinceMs), 0);
      const recent = lately && nowMs - lately.atMs < rememberedMs ? lately.waitMs : 0;
      const waitMs = Math.round(Math.max(longest, recent));
      if (busy === 0 && waitMs === 0) this.#asked.delete(model);
      else loads[model] = { busy, waitMs };
    }
    return loads;
  }
}
