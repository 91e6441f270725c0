// Words that were encoded before, with their ids. A text's words hit all of them in no order, so what such a table costs is
// memory that is not in the processor's cache: here a word and its ids lie side by side in one array, where a map of strings to
// arrays of numbers has them in five places.

/** Longer words are rare enough not to be remembered. */
export const rememberedLengthMax = 64;
const wordsMax = 200_000;
/** Numbers; 16 MB. */
const poolMax = 1 << 22;
const none = -1;

/** Of an entry in the pool: its hash, how many code units and ids it has; then the units, then the ids. */
const headLength = 3;

export class WordTable {
  #slots = new Int32Array(1 << 10).fill(none);
  #pool = new Int32Array(1 << 12);
  #used = 0;
  #words = 0;

  /** A word's entry, for `startOf` and `countOf`; -1 if it is not known. */
  find(word: string): number {
    return this.#slots[this.#slotOf(word, hashOf(word))] as number;
  }

  /** Where its ids begin in `pool`. */
  startOf(entry: number): number {
    return entry + headLength + (this.#pool[entry + 1] as number);
  }

  countOf(entry: number): number {
    return this.#pool[entry + 2] as number;
  }

  /** Changes when something is added. */
  get pool(): Int32Array {
    return this.#pool;
  }

  /** What is full is forgotten whole: common words are soon back. */
  add(word: string, ids: Int32Array): number {
    const length = headLength + word.length + ids.length;
    if (this.#words >= wordsMax || this.#used + length > poolMax) {
      this.#slots.fill(none);
      this.#used = 0;
      this.#words = 0;
    }
    this.#grow(this.#used + length);
    const hash = hashOf(word);
    const entry = this.#used;
    this.#slots[this.#slotOf(word, hash)] = entry;
    const pool = this.#pool;
    pool[entry] = hash;
    pool[entry + 1] = word.length;
    pool[entry + 2] = ids.length;
    for (let i = 0; i < word.length; i++) pool[entry + headLength + i] = word.charCodeAt(i);
    pool.set(ids, entry + headLength + word.length);
    this.#used += length;
    this.#words++;
    return entry;
  }

  #slotOf(word: string, hash: number): number {
    const slots = this.#slots;
    const mask = slots.length - 1;
    let slot = hash & mask;
    for (; ; slot = (slot + 1) & mask) {
      const entry = slots[slot] as number;
      if (entry === none || this.#isAt(entry, word, hash)) return slot;
    }
  }

  #isAt(entry: number, word: string, hash: number): boolean {
    const pool = this.#pool;
    if (pool[entry] !== hash || pool[entry + 1] !== word.length) return false;
    for (let i = 0; i < word.length; i++) if (pool[entry + headLength + i] !== word.charCodeAt(i)) return false;
    return true;
  }

  #grow(length: number): void {
    if (length > this.#pool.length) {
      const pool = new Int32Array(Math.max(length, this.#pool.length * 2));
      pool.set(this.#pool.subarray(0, this.#used));
      this.#pool = pool;
    }
    if (2 * (this.#words + 1) <= this.#slots.length) return;
    const slots = new Int32Array(this.#slots.length * 2).fill(none);
    for (const entry of this.#slots) {
      if (entry === none) continue;
      let slot = (this.#pool[entry] as number) & (slots.length - 1);
      while (slots[slot] !== none) slot = (slot + 1) & (slots.length - 1);
      slots[slot] = entry;
    }
    this.#slots = slots;
  }
}

function hashOf(word: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < word.length; i++) hash = Math.imul(hash ^ word.charCodeAt(i), 16777619);
  return hash ^ (hash >>> 15);
}
