// Values that are functions of their key and never change: whoever asks for one that somebody still holds gets the same.
// It keeps nothing alive by itself, so it needs no bound and no clearing.

export class Shared<K, V extends object> {
  readonly #held = new Map<K, WeakRef<V>>();
  readonly #gone = new FinalizationRegistry<K>((key) => {
    // By now another one may have been made under the key.
    if (this.#held.get(key)?.deref() === undefined) this.#held.delete(key);
  });

  /** How many keys it remembers. */
  get size(): number {
    return this.#held.size;
  }

  get(key: K, make: () => V): V {
    const held = this.#held.get(key)?.deref();
    if (held !== undefined) return held;
    const made = make();
    this.#held.set(key, new WeakRef(made));
    this.#gone.register(made, key);
    return made;
  }
}
