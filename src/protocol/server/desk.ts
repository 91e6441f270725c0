// Lets requests in within the limits of limits.ts: so many at once and so many bytes of them in memory, for each address,
// for each key and in all. It looks at who calls and what for, never at what a request says; which keys it shows is told by who reads it.

import { DcnrError } from "../../core/errors.ts";
import type { Timers } from "../../core/world.ts";
import { within } from "../connections/deadline.ts";
import type { Caller, Counted } from "../network.ts";
import type { GuestLimits } from "./limits.ts";
import { Shares, shareOf } from "./shares.ts";

const minuteMs = 60_000;

/** A request that was let in. */
export interface Visit extends Counted {
  /** Once, when it is over. */
  leave(): void;
}

const manyRequests = "too many requests of yours, or in all, are under way";
const manyBytes = "too many bytes of yours, or in all, are in memory";

export class Desk {
  readonly #timers: Timers;
  readonly #requests: Both;
  readonly #bytes: Both;
  readonly #rare: Shares;
  readonly #rarePaths: ReadonlySet<string>;

  constructor(timers: Timers, limits: GuestLimits) {
    const { requestsPerAddress, requestsPerKey, requestsMax, bytesPerAddress, bytesPerKey, bytesMax } = limits;
    this.#timers = timers;
    this.#requests = new Both(requestsPerAddress, requestsPerKey, requestsMax);
    this.#bytes = new Both(bytesPerAddress, bytesPerKey, bytesMax);
    this.#rare = new Shares(limits.rarePerMinuteAndAddress, limits.rarePerMinute);
    this.#rarePaths = new Set(limits.rare);
  }

  /** What is under way. */
  get load(): { readonly requests: number; readonly bytes: number } {
    return { requests: this.#requests.total, bytes: this.#bytes.total };
  }

  /** Refuses with `resource_exhausted`. */
  enter(caller: Caller, path: string): Visit {
    if (this.#rarePaths.has(path)) this.#count(caller);
    const share = shareOf(caller.address);
    const keys = new Set(caller.id === undefined ? [] : [caller.id as string]);
    if (!this.#requests.take(share, keys, 1)) throw tooMuch(manyRequests);
    let held = 0;
    let isOver = false;
    return {
      hold: (bytes) => {
        if (isOver) return false;
        if (bytes > 0 && !this.#bytes.take(share, keys, bytes)) return false;
        if (bytes < 0) this.#bytes.give(share, keys, -bytes);
        held += bytes;
        return true;
      },
      countFor: (key) => {
        if (isOver || !key || keys.has(key)) return;
        if (!this.#requests.takeFor(key, 1)) throw tooMuch(manyRequests);
        if (!this.#bytes.takeFor(key, held)) {
          this.#requests.giveFor(key, 1);
          throw tooMuch(manyBytes);
        }
        keys.add(key);
      },
      leave: () => {
        if (isOver) return;
        isOver = true;
        this.#bytes.give(share, keys, held);
        this.#requests.give(share, keys, 1);
      },
    };
  }

  /** Counts for a minute, however soon the call ends. */
  #count({ address }: Caller): void {
    const share = shareOf(address);
    if (!this.#rare.take(share)) throw tooMuch("too many machines have attached within a minute");
    within(this.#timers, minuteMs, () => this.#rare.give(share));
  }
}

/** Counted for the address and for each key; the sum once, with the address. */
class Both {
  readonly #addresses: Shares;
  readonly #keys: Shares;

  constructor(perAddress: number, perKey: number, max: number) {
    this.#addresses = new Shares(perAddress, max);
    this.#keys = new Shares(perKey, Number.POSITIVE_INFINITY);
  }

  get total(): number {
    return this.#addresses.total;
  }

  take(share: string | undefined, keys: Iterable<string>, amount: number): boolean {
    if (!this.#addresses.take(share, amount)) return false;
    const taken: string[] = [];
    for (const key of keys) {
      if (this.#keys.take(key, amount)) taken.push(key);
      else {
        this.give(share, taken, amount);
        return false;
      }
    }
    return true;
  }

  give(share: string | undefined, keys: Iterable<string>, amount: number): void {
    this.#addresses.give(share, amount);
    for (const key of keys) this.giveFor(key, amount);
  }

  takeFor(key: string, amount: number): boolean {
    return this.#keys.take(key, amount);
  }

  giveFor(key: string, amount: number): void {
    this.#keys.give(key, amount);
  }
}

export function tooMuch(why: string): DcnrError {
  return new DcnrError("resource_exhausted", `refused: ${why}; try again later`, { outlook: "passing" });
}
