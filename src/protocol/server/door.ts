// Whoever's connections keep coming to nothing (no greeting, half a request, rubbish) waits at the door: nothing is read of its
// next ones until they get their turn, so that a flood costs an accepted and a closed socket now and then, and not a
// handshake each. Turns come the further apart the more came to nothing and the more others wait, never further than two seconds, and
// the last to come is the first: an honest machine behind the same address gets in within seconds, and is not turned away before anything is read.

import type { Cancel, Timers } from "../../core/world.ts";

export interface DoorLimits {
  /** Connections of a share that came to nothing before the next ones wait. */
  readonly wastedFree: number;
  /** Between two turns of a share; doubled with every `wastedFree` more. */
  readonly turnMinMs: number;
  readonly turnMaxMs: number;
  /** Between turns of different shares, as far as that keeps none waiting longer: a flood from many addresses is one, too. */
  readonly apartMs: number;
  /** Whoever gets no turn within this leaves. */
  readonly waitMs: number;
  /** How often half of what a share has wasted is forgotten. */
  readonly forgetMs: number;
  /** Of shares that are remembered. */
  readonly sharesMax: number;
}

interface Waiting {
  readonly enter: () => void;
  readonly leave: Cancel;
}

interface Share {
  wasted: number;
  turn: Cancel | undefined;
  readonly waiting: Waiting[];
}

export class Door {
  readonly #timers: Timers;
  readonly #limits: DoorLimits;
  readonly #shares = new Map<string, Share>();
  /** Shares of which somebody waits. */
  readonly #crowd = new Set<Share>();
  #forgetting: Cancel | undefined;

  constructor(timers: Timers, limits: DoorLimits) {
    this.#timers = timers;
    this.#limits = limits;
  }

  /** `enter` is called at once or later, or else `turnAway`. Gives what is to be called when the connection ends. */
  arrived(share: string | undefined, enter: () => void, turnAway: () => void): () => void {
    const known = share === undefined ? undefined : this.#shares.get(share);
    if (known === undefined || (known.wasted < this.#limits.wastedFree && known.waiting.length === 0)) {
      enter();
      return () => {};
    }
    const leave = () => {
      const at = known.waiting.indexOf(one);
      if (at !== -1) known.waiting.splice(at, 1);
      if (known.waiting.length === 0) this.#crowd.delete(known);
      late();
    };
    const late = this.#timers.after(this.#limits.waitMs, () => {
      leave();
      turnAway();
    });
    const one: Waiting = { enter, leave };
    known.waiting.push(one);
    this.#crowd.add(known);
    this.#nextTurn(known);
    return leave;
  }

  /** A connection ended on which nobody had asked for anything. */
  wasted(share: string | undefined): void {
    if (share === undefined) return;
    const known = this.#shares.get(share) ?? { wasted: 0, turn: undefined, waiting: [] };
    known.wasted = Math.min(known.wasted + 1, this.#limits.wastedFree * 16);
    // A flood from more addresses than that is one for a firewall; nobody is turned away by forgetting it.
    if (this.#shares.size >= this.#limits.sharesMax && !this.#shares.has(share)) return;
    this.#shares.set(share, known);
    this.#forgetting ??= this.#timers.after(this.#limits.forgetMs, () => this.#forget());
  }

  /** One on which somebody asked for something makes up for one that came to nothing. */
  used(share: string | undefined): void {
    const known = share === undefined ? undefined : this.#shares.get(share);
    if (known) known.wasted = Math.max(0, known.wasted - 1);
  }

  #nextTurn(share: Share): void {
    if (share.turn !== undefined || share.waiting.length === 0) return;
    const { wastedFree, turnMinMs, turnMaxMs, apartMs } = this.#limits;
    const doublings = Math.max(0, Math.floor(share.wasted / wastedFree) - 1);
    const delayMs = Math.max(turnMinMs * 2 ** doublings, apartMs * this.#crowd.size);
    share.turn = this.#timers.after(Math.min(turnMaxMs, delayMs), () => {
      share.turn = undefined;
      const next = share.waiting.at(-1);
      next?.leave();
      next?.enter();
      this.#nextTurn(share);
    });
  }

  #forget(): void {
    for (const [name, share] of this.#shares) {
      share.wasted = Math.floor(share.wasted / 2);
      if (share.wasted === 0 && share.waiting.length === 0) this.#shares.delete(name);
    }
    const { forgetMs } = this.#limits;
    this.#forgetting = this.#shares.size > 0 ? this.#timers.after(forgetMs, () => this.#forget()) : undefined;
  }
}
