// The memory that this PNode lends to VNodes, as it counts itself. Orchestrators claim room before they assign anything; a
// PNode does not rely on that: what does not fit is refused, whoever assigned it.

import { DcnrError } from "../core/errors.ts";
import { lentMemoryBytes, reserveBytes } from "../core/lent.ts";
import { sleep, type Timers } from "../core/world.ts";

/** Another place may have room: orchestrators take the VNode there. */
export class NoRoom extends DcnrError {
  constructor(message: string) {
    super("resource_exhausted", message);
  }
}

/**
 * Lists of assignments may name what comes before what goes, and an orchestrator whose store was away hears late of what another one took
 * from here. Counted in looks, not by a clock: a process that was asleep has heard nothing meanwhile.
 */
const looksMax = 300;
const lookMs = 100;

export class Room {
  readonly #timers: Timers;
  #lentBytes: number;
  /** By VNode: what it needs, however often it begins anew. */
  readonly #held = new Map<string, number>();
  readonly #awaited = new Map<string, number>();
  /** What is loaded in case that it is assigned; it never stands in the way of what is. */
  readonly #ahead = new Map<string, number>();

  constructor(timers: Timers, lentBytes: number) {
    this.#timers = timers;
    this.#lentBytes = lentBytes;
  }

  /** As much of the machine's memory from now on; what is held stays, also where it is more. */
  lends(bytes: number): void {
    this.#lentBytes = lentMemoryBytes(bytes, 0);
  }

  /** What VNodes take of the machine's memory, with what is kept for the program itself; 0 while there are none. */
  get heldBytes(): number {
    const bytes = sumOf(this.#held, "") + sumOf(this.#ahead, "");
    return bytes > 0 ? bytes + reserveBytes : 0;
  }

  /** Returns early when the signal aborts. */
  async take(vnode: string, bytes: number, signal: AbortSignal): Promise<void> {
    this.#awaited.set(vnode, bytes);
    try {
      for (let look = 1; ; look++) {
        if (signal.aborted) return;
        const others = sumOf(this.#held, vnode);
        if (others + bytes <= this.#lentBytes) break;
        if (look >= looksMax) throw new NoRoom(this.#sentence(bytes, others));
        await sleep(this.#timers, lookMs, signal);
      }
      this.#ahead.delete(vnode);
      this.#held.set(vnode, bytes);
    } finally {
      this.#awaited.delete(vnode);
    }
  }

  /** Whether all of these would be taken at once, beside those that wait for room already. */
  fits(bytes: ReadonlyMap<string, number>): boolean {
    return sumOf(new Map([...this.#awaited, ...this.#held, ...bytes]), "") <= this.#lentBytes;
  }

  takeAhead(vnode: string, bytes: number): void {
    const others = sumOf(this.#held, vnode) + sumOf(this.#ahead, vnode);
    if (others + bytes > this.#lentBytes) throw new NoRoom(this.#sentence(bytes, others));
    this.#ahead.set(vnode, bytes);
  }

  giveBack(vnode: string): void {
    this.#held.delete(vnode);
  }

  giveBackAhead(vnode: string): void {
    this.#ahead.delete(vnode);
  }

  #sentence(bytes: number, others: number): string {
    return `it needs ${mebi(bytes)} of memory; this PNode lends ${mebi(this.#lentBytes)} to VNodes, and ${mebi(others)} are taken`;
  }
}

function sumOf(bytes: ReadonlyMap<string, number>, except: string): number {
  let sum = 0;
  for (const [vnode, own] of bytes) if (vnode !== except) sum += own;
  return sum;
}

function mebi(bytes: number): string {
  return `${Math.ceil(bytes / 2 ** 20)} MiB`;
}
