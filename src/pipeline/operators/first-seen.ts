// Which keys were seen before, and by whom: a table in typed arrays, so that a million entries take some tens of megabytes and
// nothing of them concerns the garbage collector.

import { assert } from "../../core/assert.ts";

/** A table that small takes 13 MB, and a pass that fills half of it a fraction of a second: whoever is killed loses no more. */
const entriesMax = 1 << 18;

/** How many passes over the keys it takes to look at so many records, each at its share of them, and how many entries a table needs for that. */
export function passesOver(records: number): { readonly passes: number; readonly entries: number } {
  return { passes: Math.max(1, Math.ceil(records / (entriesMax / 2))), entries: Math.min(records, entriesMax) };
}

const none = 0xffffffff;

export class FirstSeen {
  readonly #mask: number;
  readonly #keysA: Float64Array;
  readonly #keysB: Float64Array;
  /** The first entry of a key, and for each entry the next with the same key. */
  readonly #head: Uint32Array;
  readonly #next: Uint32Array;
  readonly #records: Uint32Array;
  #entries = 0;

  constructor(entries: number) {
    let slots = 16;
    while (slots < entries * 2) slots *= 2;
    this.#mask = slots - 1;
    this.#keysA = new Float64Array(slots);
    this.#keysB = new Float64Array(slots);
    this.#head = new Uint32Array(slots).fill(none);
    this.#next = new Uint32Array(entries).fill(none);
    this.#records = new Uint32Array(entries);
  }

  /** As if it were new: one table serves pass after pass, since each new one would stay beside it until it is collected. */
  clear(): void {
    this.#head.fill(none);
    this.#next.fill(none, 0, this.#entries);
    this.#entries = 0;
  }

  /** The records with this key, oldest first. */
  *with(a: number, b: number): Generator<number> {
    const slot = this.#slot(a, b);
    for (let entry = this.#head[slot] as number; entry !== none; entry = this.#next[entry] as number)
      yield this.#records[entry] as number;
  }

  add(a: number, b: number, record: number): void {
    assert(this.#entries < this.#records.length, "the table has room for all its entries");
    const slot = this.#slot(a, b);
    const entry = this.#entries++;
    this.#records[entry] = record;
    let last = this.#head[slot] as number;
    if (last === none) {
      this.#head[slot] = entry;
      this.#keysA[slot] = a;
      this.#keysB[slot] = b;
      return;
    }
    while (this.#next[last] !== none) last = this.#next[last] as number;
    this.#next[last] = entry;
  }

  #slot(a: number, b: number): number {
    let slot = (Math.imul(a % 4294967296, 0x9e3779b1) ^ Math.imul(b % 4294967296, 0x85ebca6b)) & this.#mask;
    while (this.#head[slot] !== none && (this.#keysA[slot] !== a || this.#keysB[slot] !== b))
      slot = (slot + 1) & this.#mask;
    return slot;
  }
}
