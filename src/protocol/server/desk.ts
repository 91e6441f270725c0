// Lets requests in within the limits of limits.ts: so many at once and so many bytes of them in memory, for each address,
// for each key and in all. It looks at who calls and what for, never at what a request says.

import { DcnrError } from "../../core/errors.ts";
import type { Timers } from "../../core/world.ts";
import { within } from "../connections/deadline.ts";
import type { Caller } from "../network.ts";
import type { GuestLimits } from "./limits.ts";
import { Shares, shareOf } from "./shares.ts";

const minuteMs = 60_000;

/** A request that was let in. */
export interface Visit {
  /** Bytes of it that came to lie in memory, or (negative) that lie there no more. False: it must end. */
  hold(bytes: number): boolean;
  /** Once, when it is over. */
  leave(): void;
}

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
    if (!this.#requests.take(caller, 1)) throw tooMuch("too many requests of yours, or in all, are under way");
    let held = 0;
    let isOver = false;
    return {
      hold: (bytes) => {
        if (isOver) return false;
        if (bytes > 0 && !this.#bytes.take(caller, bytes)) return false;
        if (bytes < 0) this.#bytes.give(caller, -bytes);
        held += bytes;
        return true;
      },
      leave: () => {
        if (isOver) return;
        isOver = true;
        this.#bytes.give(caller, held);
        this.#requests.give(caller, 1);
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

/** Counted for the address and for the key; the sum once. */
class Both {
  readonly #addresses: Shares;
  readonly #keys: Shares;

  constructor(perAddress: number, perKey: number, max: number) {
    this.#addresses = new Shares(perAddress, max);
    this.#keys = new Shares(perKey, max);
  }

  get total(): number {
    return this.#addresses.total;
  }

  take({ id, address }: Caller, amount: number): boolean {
    const share = shareOf(address);
    if (!this.#addresses.take(share, amount)) return false;
    if (this.#keys.take(id, amount)) return true;
    this.#addresses.give(share, amount);
    return false;
  }

  give({ id, address }: Caller, amount: number): void {
    this.#addresses.give(shareOf(address), amount);
    this.#keys.give(id, amount);
  }
}

export function tooMuch(why: string): DcnrError {
  return new DcnrError("resource_exhausted", `refused: ${why}; try again later`, { outlook: "passing" });
}
