// A map of bounded size: what was used least recently goes first. For caches whose loss costs work and nothing else,
// and for what is remembered of strangers, who may invent names.

import { assert } from "../assert.ts";

export class Recent<K, V> {
  readonly #most: number;
  /** Least recently used first: using a key inserts it anew. */
  readonly #entries = new Map<K, V>();

  constructor(most: number) {
    assert(most >= 1, "a map of recent things holds at least one");
    this.#most = most;
  }

  get size(): number {
    return this.#entries.size;
  }

  has(key: K): boolean {
    return this.#entries.has(key);
  }

  /** Counts as use. */
  get(key: K): V | undefined {
    const value = this.#entries.get(key);
    if (value === undefined) return undefined;
    this.#entries.delete(key);
    this.#entries.set(key, value);
    return value;
  }

  set(key: K, value: V): void {
    this.#entries.delete(key);
    this.#entries.set(key, value);
    if (this.#entries.size <= this.#most) return;
    for (const oldest of this.#entries.keys()) {
      this.#entries.delete(oldest);
      return;
    }
  }

  delete(key: K): void {
    this.#entries.delete(key);
  }
}
