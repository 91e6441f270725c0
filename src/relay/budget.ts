// Keeps a relay below its limits, in all and for each machine that waits there, and notices when that makes its users wait.

import { Bandwidth } from "../core/bandwidth.ts";
import type { World } from "../core/world.ts";
import type { RelayLimits } from "./limits.ts";

/** A machine is slowed if it has waited for so much of the time between two looks. */
const slowedShare = 0.2;
const lookMs = 5_000;

interface User {
  readonly bucket: Bandwidth;
  waitedMs: number;
  slowed: boolean;
}

/** Told when a machine begins to be slowed, and (with a limit of 0) when that is over. */
export type OnSlowed = (machine: string, limitBytesPerSecond: number, shared: boolean) => void;

export class Budget {
  readonly #world: World;
  readonly #limits: RelayLimits;
  readonly #all: Bandwidth;
  readonly #users = new Map<string, User>();
  readonly #onSlowed: OnSlowed;
  #sharedWaitMs = 0;
  #looking = false;
  /** Carried so far. */
  bytes = 0;

  constructor(world: World, limits: RelayLimits, onSlowed: OnSlowed) {
    this.#world = world;
    this.#limits = limits;
    this.#all = new Bandwidth(world, limits.bytesPerSecond);
    this.#onSlowed = onSlowed;
  }

  get slowed(): boolean {
    return [...this.#users.values()].some(({ slowed }) => slowed);
  }

  /** Waits until so many bytes may pass between two machines. The one that is called pays for both. */
  async take(
    bytes: number,
    users: { readonly target: string; readonly by: string },
    signal: AbortSignal,
  ): Promise<void> {
    const { target, by } = users;
    this.bytes += bytes;
    const called = this.#user(target);
    const own = await called.bucket.take(bytes, signal);
    const shared = await this.#all.take(bytes, signal);
    if (own + shared === 0) return;
    this.#sharedWaitMs += shared;
    for (const user of [called, this.#user(by)]) user.waitedMs += own + shared;
    this.#look();
  }

  #user(machine: string): User {
    const user = this.#users.get(machine);
    if (user !== undefined) return user;
    const bucket = new Bandwidth(this.#world, this.#limits.bytesPerSecondPerMachine);
    const made = { bucket, waitedMs: 0, slowed: false };
    this.#users.set(machine, made);
    return made;
  }

  /** From time to time while anybody has waited. */
  #look(): void {
    if (this.#looking) return;
    this.#looking = true;
    this.#world.timers.after(lookMs, () => {
      this.#looking = false;
      let again = false;
      const shared = this.#sharedWaitMs >= slowedShare * lookMs;
      for (const [machine, user] of this.#users) {
        const slowed = user.waitedMs >= slowedShare * lookMs;
        const limit = shared ? this.#limits.bytesPerSecond : this.#limits.bytesPerSecondPerMachine;
        if (slowed !== user.slowed) this.#onSlowed(machine, slowed ? limit : 0, shared);
        user.slowed = slowed;
        if (slowed || user.waitedMs > 0) again = true;
        else this.#users.delete(machine);
        user.waitedMs = 0;
      }
      this.#sharedWaitMs = 0;
      if (again) this.#look();
    });
  }
}
