// Keepers that could not keep a VNode's states: when each is asked again, and when another one is asked in its place.

import { hasCode, messageOf } from "../../core/errors.ts";
import type { VNodeId } from "../../core/ids.ts";
import { Backoff } from "../../core/retry.ts";
import type { World } from "../../core/world.ts";

/** A keeper without room is not asked again for so long, and one that failed for less. */
const refusalMs = 60_000;
const pauseMinMs = 400;
const pauseMaxMs = 10_000;
/** After so many failures in turn another one is asked in its place. */
const failuresMax = 4;

interface Stumble {
  readonly vnode: VNodeId;
  readonly backoff: Backoff;
  readonly failures: number;
  readonly untilMs: number;
  /** Of a keeper without room, for people. */
  readonly refusal: string;
}

export class Stumbles {
  readonly #world: Pick<World, "clock" | "chance">;
  readonly #byKeeper = new Map<string, Stumble>();

  constructor(world: Pick<World, "clock" | "chance">) {
    this.#world = world;
  }

  /** Gives what people should hear of it; empty if it may well pass. */
  add(keeper: string, vnode: VNodeId, error: unknown): string {
    const name = `${keeper} ${vnode}`;
    const { backoff, failures } = this.#byKeeper.get(name) ?? {
      backoff: new Backoff(pauseMinMs, pauseMaxMs, this.#world.chance),
      failures: 0,
    };
    const refuses = hasCode(error, "resource_exhausted");
    const refusal = refuses ? `PNode ${keeper} has no room to keep its states: ${messageOf(error)}` : "";
    const untilMs = this.#nowMs + (refuses ? refusalMs : backoff.next());
    this.#byKeeper.set(name, { vnode, backoff, failures: failures + 1, untilMs, refusal });
    return refusal;
  }

  delete(keeper: string, vnode: VNodeId): void {
    this.#byKeeper.delete(`${keeper} ${vnode}`);
  }

  isPausing(keeper: string, vnode: VNodeId): boolean {
    return this.#pausing(this.#byKeeper.get(`${keeper} ${vnode}`)) !== undefined;
  }

  /** Whether another one keeps the VNode's states until this one is asked again. */
  isPassedOver(keeper: string, vnode: VNodeId): boolean {
    const stumble = this.#pausing(this.#byKeeper.get(`${keeper} ${vnode}`));
    return stumble !== undefined && (stumble.refusal !== "" || stumble.failures >= failuresMax);
  }

  refusals(vnode: VNodeId): string[] {
    return [...this.#byKeeper.values()].flatMap((one) =>
      one.vnode === vnode && one.refusal !== "" && this.#pausing(one) ? one.refusal : [],
    );
  }

  #pausing(stumble: Stumble | undefined): Stumble | undefined {
    return stumble !== undefined && stumble.untilMs > this.#nowMs ? stumble : undefined;
  }

  get #nowMs(): number {
    return this.#world.clock.monotonicMs();
  }
}
