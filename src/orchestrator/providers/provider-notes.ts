// What is written down about a provider while it is used: what is wrong with it, and what was learned of its offers.

import { messageOf } from "../../core/errors.ts";
import type { Context } from "../context.ts";
import type { OfferHistory } from "../records/providers.ts";
import { key } from "../records/store-keys.ts";
import { afterBroken, nothingLearned } from "./learned.ts";

export class ProviderNotes {
  readonly #context: Context;

  constructor(context: Context) {
    this.#context = context;
  }

  /** Said once when it begins and once when it is over. */
  async problem(name: string, sentence: string): Promise<void> {
    const { mirror, events } = this.#context;
    if ((mirror.get(key.provider(name))?.problem ?? "") === sentence) return;
    const { written } = await mirror.update(key.provider(name), (current) => {
      if (!current || (current.problem ?? "") === sentence) return undefined;
      const { problem: _, ...rest } = current;
      return sentence === "" ? rest : { ...rest, problem: sentence };
    });
    if (!written) return;
    if (sentence === "") events.emit("info", "provider.well", `provider ${name} works again`);
    else events.emit("warn", "provider.problem", `provider ${name}: ${sentence}`);
  }

  async tried(name: string, work: () => Promise<void>): Promise<boolean> {
    try {
      await work();
      return true;
    } catch (thrown) {
      await this.problem(name, messageOf(thrown));
      return false;
    }
  }

  async learn(provider: string, offer: string, next: (before: OfferHistory) => OfferHistory): Promise<void> {
    await this.#context.mirror.update(key.provider(provider), (current) =>
      current
        ? { ...current, learned: { ...current.learned, [offer]: next(current.learned[offer] ?? nothingLearned) } }
        : undefined,
    );
  }

  /** It did not keep what it promised: nobody asks for it for a while. */
  blame(provider: string, offer: string, why: string): Promise<void> {
    const nowMs = this.#context.world.clock.wallMs();
    return this.learn(provider, offer, (before) => afterBroken(before, nowMs, why));
  }
}
