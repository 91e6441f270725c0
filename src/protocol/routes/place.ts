// One machine that is called by several routes: they are tried side by side, the better ones ahead of the others, the best
// that answers is kept until it fails, and as long as that leads through a relay better ones are tried again.

import { DcnrError, hasCode, outlookOf } from "../../core/errors.ts";
import type { KeyId } from "../../core/ids.ts";
import type { Cancel, World } from "../../core/world.ts";
import { within } from "../connections/deadline.ts";
import { SystemService } from "../gen/dcnr/v1/system_pb.ts";
import type { Network } from "../network.ts";
import { isSocketAddress, keyOf, withKey, withoutKey } from "./address.ts";
import { isPunched, parseRoute, punchedRoute, shownRoute, splitRoutes } from "./routes.ts";

export interface RoutedTimings {
  /** The next route is tried when the last one has not answered for so long. */
  readonly aheadMs: number;
  /** A route by which nobody answers within this leads nowhere. */
  readonly answerMs: number;
  /** How long a route through a relay is used before better ones are tried again. */
  readonly relayedMs: number;
}

export const routedTimingsDefault: RoutedTimings = { aheadMs: 250, answerMs: 5_000, relayedMs: 180_000 };

/** What is watched may be as large as what streams carry, a state for example, and as small as calls. */
export type Carried = "calls" | "watches" | "streams";

export interface Choice {
  /** With the key. */
  readonly address: string;
  /** 0 is the best. */
  readonly rank: number;
}

export class Place {
  readonly #network: Network;
  readonly #world: World;
  readonly #timings: RoutedTimings;
  readonly #name: string;
  /** The best first. */
  readonly #choices: readonly Choice[];
  #chosen: Choice | undefined;
  #choosing: Promise<Choice> | undefined;
  /** What is open, by whose choice, and how it is ended when there is something better. */
  readonly #held = new Map<object, { readonly choice: Choice; readonly end: () => void }>();
  #again: Cancel = () => {};
  #isClosed = false;

  constructor(address: string, carries: Carried, network: Network, world: World, timings: RoutedTimings) {
    this.#network = network;
    this.#world = world;
    this.#timings = timings;
    this.#name = shownRoute(address);
    const key = keyOf(address);
    // Single calls are not worth a way of their own.
    const punches = carries !== "calls" && key !== undefined && network.punches !== undefined;
    this.#choices = usable(withoutKey(address), carries, punches).map((route, rank) => ({
      address: key === undefined ? route : withKey(route, key as KeyId),
      rank,
    }));
  }

  /** Nothing is open and nobody chooses. */
  get isIdle(): boolean {
    return this.#held.size === 0 && this.#choosing === undefined;
  }

  /** One call by the best route, within `timeoutMs` in all: whoever waits for a choice waits no longer for it. */
  async use<Result>(timeoutMs: number, call: (address: string, timeoutMs: number) => Promise<Result>): Promise<Result> {
    const { clock } = this.#world;
    const startedMs = clock.monotonicMs();
    const choice = await this.#chooseWithin(timeoutMs);
    const leftMs = Math.max(1, timeoutMs - (clock.monotonicMs() - startedMs));
    try {
      return await call(choice.address, leftMs);
    } catch (error) {
      this.failed(choice, error);
      throw error;
    }
  }

  async choose(): Promise<Choice> {
    const [only, other] = this.#choices;
    if (only === undefined) throw new DcnrError("unavailable", `nothing leads to ${this.#name} that carries this`);
    if (other === undefined && !isPunched(only.address)) return only;
    const chosen = this.#chosen;
    if (chosen !== undefined && isPunched(chosen.address) && !this.#stands(chosen)) this.#chosen = undefined;
    // Where nothing is known of the way by now, it is tried like the others.
    const made = this.#chosen && this.#choices.find((one) => this.#stands(one));
    if (made !== undefined) this.#answered(made);
    if (this.#chosen !== undefined) return this.#chosen;
    this.#choosing ??= this.#race(this.#choices).finally(() => {
      this.#choosing = undefined;
    });
    return this.#choosing;
  }

  /** A way through routers that was made, for whatever purpose. */
  #stands({ address }: Choice): boolean {
    return isPunched(address) && this.#network.punches?.stands(address) === true;
  }

  /** What came of the choice: one that leads nowhere any more is not used again before it has answered again. */
  failed(choice: Choice, error: unknown): void {
    const leadsNowhere = outlookOf(error) !== "final" || hasCode(error, "unauthenticated");
    if (this.#chosen === choice && leadsNowhere) this.#chosen = undefined;
  }

  /** A stream that is open: `end` is called when there is a better way. Gives what is to be called when it is over. */
  holds(choice: Choice, end: () => void): () => void {
    const name = {};
    this.#held.set(name, { choice, end });
    this.#tryAgainLater();
    return () => void this.#held.delete(name);
  }

  close(): void {
    this.#isClosed = true;
    this.#again();
  }

  async #chooseWithin(timeoutMs: number): Promise<Choice> {
    const { promise: late, reject } = Promise.withResolvers<never>();
    const inTime = within(this.#world.timers, timeoutMs, () =>
      reject(new DcnrError("deadline_exceeded", `${this.#name}: no route answered within ${timeoutMs} ms`)),
    );
    try {
      return await Promise.race([this.choose(), late]);
    } finally {
      inTime();
    }
  }

  /** Resolves with the first that answers, here or in another race; a better one that answers later takes its place. */
  #race(choices: readonly Choice[]): Promise<Choice> {
    const { timers } = this.#world;
    const { promise, resolve, reject } = Promise.withResolvers<Choice>();
    let next = 0;
    let pending = 0;
    let cancel: Cancel = () => {};
    const goOn = (thrown?: unknown) => {
      cancel();
      const chosen = this.#chosen;
      const choice = choices[next];
      // Those that follow are worse than the one before them, and no better than one that has answered.
      if (choice === undefined || (chosen !== undefined && chosen.rank <= choice.rank)) {
        if (chosen !== undefined) resolve(chosen);
        else if (pending === 0)
          reject(new DcnrError("unavailable", `no route leads to ${this.#name}: ${DcnrError.from(thrown).message}`));
        return;
      }
      next++;
      pending++;
      if (next < choices.length) cancel = timers.after(this.#timings.aheadMs, goOn);
      this.#probe(choice).then(
        () => {
          pending--;
          this.#answered(choice);
          goOn();
        },
        (error) => {
          pending--;
          goOn(error);
        },
      );
    };
    goOn();
    return promise;
  }

  async #probe({ address }: Choice): Promise<void> {
    if (isPunched(address)) await this.#network.punches?.punch(address);
    await this.#network.call(address, SystemService.method.getVersion, {}, { timeoutMs: this.#timings.answerMs });
  }

  #answered(choice: Choice): void {
    const before = this.#chosen;
    if (before !== undefined && before.rank <= choice.rank) return;
    this.#chosen = choice;
    for (const { choice: worse, end } of [...this.#held.values()]) if (worse.rank > choice.rank) end();
    this.#tryAgainLater();
  }

  /** While something is open that goes a way which is not the best. */
  #tryAgainLater(): void {
    this.#again();
    if (this.#isClosed) return;
    this.#again = this.#world.timers.after(this.#timings.relayedMs, () => {
      const chosen = this.#chosen;
      if (this.#held.size === 0 || chosen === undefined) return;
      const better = this.#choices.slice(0, chosen.rank);
      if (better.length > 0) this.#race(better).catch(() => {});
      this.#tryAgainLater();
    });
  }
}

/**
 * Direct ways, then those that can be made through routers, then WebSockets, then relayed ones, each kind as the machine has
 * named them.
 */
function usable(routes: string, carries: Carried, punches: boolean): string[] {
  const known = splitRoutes(routes).flatMap((text): { text: string; cost: number }[] => {
    try {
      const route = parseRoute(text);
      if (route.kind === "direct") return [{ text, cost: isSocketAddress(route.address) ? 2 : 0 }];
      // By which relay a way is made does not matter, so one attempt is enough.
      const made = punches && !route.sealed ? [{ text: punchedRoute(route), cost: 1 }] : [];
      return [...made, { text, cost: route.tensors ? 3 : 4 }];
    } catch {
      // Of a version that knows more kinds.
      return [];
    }
  });
  const first = known.find(({ cost }) => cost === 1);
  return known
    .filter((one) => (carries !== "streams" || one.cost < 4) && (one.cost !== 1 || one === first))
    .sort((a, b) => a.cost - b.cost)
    .map(({ text }) => text);
}
