// Keys and values of the positions that requests have behind them, for one VNode. They lie in slabs: the requests of
// a pass side by side, as the graph takes them, so that the same requests need no copy for their next pass. Capacity
// grows in buckets and follows from positions alone: few graph shapes exist, and a repeated pass has the same one.

import { assert } from "../../core/assert.ts";
import type { Tensor } from "../../core/tensor.ts";
import type { Executor } from "../../engine/engine.ts";
import type { CachePlan } from "../../network/graphs/generation.ts";

/** Positions by which caches grow. Smaller would waste less attention, larger would need fewer graphs. */
const bucketPositions = 32;

/** Room for `length` positions behind a new token; none for the first pass. */
export function bucketOf(length: number): number {
  return Math.ceil(length / bucketPositions) * bucketPositions;
}

/** Undefined stands for a ghost, whose values do not matter. */
type Rows = readonly (string | undefined)[];

interface Slab {
  readonly rows: Rows;
  readonly capacity: number;
  /** By output name of the graph: [rows, heads, capacity, width], padded behind the values. */
  readonly tensors: ReadonlyMap<string, Tensor>;
  /** Requests whose values are here and nowhere else. */
  live: number;
}

interface Entry {
  slab: Slab;
  row: number;
  length: number;
}

interface Part {
  readonly name: string;
  readonly input: string;
  readonly heads: number;
  readonly width: number;
}

export class Caches {
  readonly #executor: Executor;
  readonly #parts: readonly Part[];
  readonly #entries = new Map<string, Entry>();
  #bytes = 0;

  constructor(executor: Executor, plans: readonly CachePlan[]) {
    this.#executor = executor;
    this.#parts = plans.flatMap(({ keyInput, valueInput, keyOutput, valueOutput, heads, width }) => [
      { name: keyOutput, input: keyInput, heads, width },
      { name: valueOutput, input: valueInput, heads, width },
    ]);
  }

  get requests(): number {
    return this.#entries.size;
  }

  /** Of all slabs. */
  get bytes(): number {
    return this.#bytes;
  }

  lengthOf(request: string): number {
    return this.#entries.get(request)?.length ?? 0;
  }

  /** Feeds for rows in order, with room for `cached` positions. They stay here: nobody gives them back. */
  feeds(rows: Rows, cached: number): Record<string, Tensor> {
    if (cached === 0 || this.#parts.length === 0) return {};
    const { tensors } = this.#slabWith(rows, cached);
    return Object.fromEntries(this.#parts.map(({ name, input }) => [input, tensors.get(name) as Tensor]));
  }

  #slabWith(rows: Rows, capacity: number): Slab {
    const known = this.#common(rows);
    if (known?.capacity === capacity && isSame(known.rows, rows)) return known;
    const slab = this.#open(rows, capacity);
    for (const [row, request] of rows.entries()) {
      const entry = request === undefined ? undefined : this.#entries.get(request);
      if (entry) this.#move(entry, slab, row);
    }
    return slab;
  }

  /** The slab in which all of them lie, if there is one. */
  #common(rows: Rows): Slab | undefined {
    let common: Slab | undefined;
    for (const request of rows) {
      const slab = request === undefined ? undefined : this.#entries.get(request)?.slab;
      if (slab === undefined) continue;
      if (common !== undefined && slab !== common) return undefined;
      common = slab;
    }
    return common;
  }

  /** Adds the new positions of one row of a pass. */
  append(request: string, results: Readonly<Record<string, Tensor>>, row: number, tokens: number): void {
    const entry = this.#entryWithRoom(request, tokens);
    const { slab, length } = entry;
    for (const { name, heads, width } of this.#parts) {
      const from = results[name]?.data as Float32Array;
      const into = slab.tensors.get(name)?.data as Float32Array;
      for (let head = 0; head < heads; head++) {
        const start = (row * heads + head) * tokens * width;
        const at = ((entry.row * heads + head) * slab.capacity + length) * width;
        into.set(from.subarray(start, start + tokens * width), at);
      }
    }
    entry.length = length + tokens;
  }

  #entryWithRoom(request: string, tokens: number): Entry {
    const known = this.#entries.get(request);
    if (known && known.length + tokens <= known.slab.capacity) return known;
    const slab = this.#open([request], bucketOf((known?.length ?? 0) + tokens));
    if (known) {
      this.#move(known, slab, 0);
      return known;
    }
    const entry = { slab, row: 0, length: 0 };
    slab.live++;
    this.#entries.set(request, entry);
    return entry;
  }

  #open(rows: Rows, capacity: number): Slab {
    const tensors = new Map<string, Tensor>();
    for (const { name, heads, width } of this.#parts) {
      const tensor = this.#executor.tensor("float32", [rows.length, heads, capacity, width]);
      // What lies behind the values is masked, yet must be finite.
      (tensor.data as Float32Array).fill(0);
      tensors.set(name, tensor);
      this.#bytes += tensor.data.byteLength;
    }
    return { rows, capacity, tensors, live: 0 };
  }

  #move(entry: Entry, slab: Slab, row: number): void {
    assert(entry.length <= slab.capacity, "a slab has room for those who move in");
    for (const { name, heads, width } of this.#parts) {
      const from = entry.slab.tensors.get(name)?.data as Float32Array;
      const into = slab.tensors.get(name)?.data as Float32Array;
      for (let head = 0; head < heads; head++) {
        const start = (entry.row * heads + head) * entry.slab.capacity * width;
        into.set(from.subarray(start, start + entry.length * width), (row * heads + head) * slab.capacity * width);
      }
    }
    slab.live++;
    this.#leave(entry.slab);
    entry.slab = slab;
    entry.row = row;
  }

  #leave(slab: Slab): void {
    if (--slab.live > 0) return;
    for (const tensor of slab.tensors.values()) this.#bytes -= tensor.data.byteLength;
    this.#executor.recycle(slab.tensors.values());
  }

  drop(request: string): void {
    const entry = this.#entries.get(request);
    if (entry === undefined) return;
    this.#entries.delete(request);
    this.#leave(entry.slab);
  }

  clear(): void {
    for (const request of [...this.#entries.keys()]) this.drop(request);
  }
}

function isSame(a: Rows, b: Rows): boolean {
  return a.length === b.length && a.every((request, row) => request === b[row]);
}
