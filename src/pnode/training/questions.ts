// Questions for messages that a life of a VNode misses. Whoever moves together with a neighbour hears of its new place a moment
// later, so a question that reached nobody is repeated soon, a few times; later ones wait for impatience.

import type { VNodeId } from "../../core/ids.ts";
import type { World } from "../../core/world.ts";
import type { MessageName } from "../../vnode/names.ts";
import type { Timings } from "../options.ts";
import type { Exchange, Sender } from "./exchange.ts";

/** Of a question that reached nobody. */
const repeatsMax = 3;

export interface QuestionsOptions {
  readonly world: Pick<World, "timers">;
  readonly timings: Pick<Timings, "retryMinMs">;
  readonly exchange: Pick<Exchange, "ask">;
  readonly sender: () => Sender;
  /** False once the life has ended, or the message is here. */
  readonly isMissing: (name: MessageName) => boolean;
  /** A neighbour has collected what was asked for, from this step on. */
  readonly onGone: (step: number) => void;
}

export class Questions {
  readonly #options: QuestionsOptions;

  constructor(options: QuestionsOptions) {
    this.#options = options;
  }

  /** `attempt`: which of the neighbour's owners is asked, round and round. */
  ask(whom: VNodeId, names: readonly MessageName[], attempt: number, repeats = 0): void {
    const { world, timings, exchange, sender, isMissing, onGone } = this.#options;
    exchange.ask(sender(), whom, names, attempt, (outcome) => {
      if (outcome === "gone")
        onGone(names.reduce((lowest, name) => Math.min(lowest, name.step), Number.POSITIVE_INFINITY));
      if (outcome === "coming" || outcome === "gone" || repeats >= repeatsMax) return;
      world.timers.after(timings.retryMinMs * 2 ** repeats, () => {
        const missing = names.filter(isMissing);
        if (missing.length > 0) this.ask(whom, missing, attempt, repeats + 1);
      });
    });
  }
}
