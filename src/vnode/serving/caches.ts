// Keys and values of the positions that a request has behind it, for one VNode. Caches grow in buckets, so that
// few graph shapes exist; the bucket follows from the position alone, so that a repeated pass has the same shape.

import { assert } from "../../core/assert.ts";
import type { Tensor } from "../../core/tensor.ts";
import type { Executor } from "../../engine/engine.ts";
import type { CachePlan } from "../../network/generation.ts";

/** Positions by which caches grow. Smaller would waste less attention, larger would need fewer graphs. */
const bucketPositions = 32;

/** Room for `length` positions behind a new token; none for the first pass. */
export function bucketOf(length: number): number {
  return Math.ceil(length / bucketPositions) * bucketPositions;
}

interface Entry {
  length: number;
  /** By output name of the graph: [1, heads, capacity, width]. */
  readonly tensors: Map<string, Tensor>;
  capacity: number;
}

export class Caches {
  readonly #executor: Executor;
  readonly #plans: readonly CachePlan[];
  readonly #entries = new Map<string, Entry>();

  constructor(executor: Executor, plans: readonly CachePlan[]) {
    this.#executor = executor;
    this.#plans = plans;
  }

  get requests(): number {
    return this.#entries.size;
  }

  lengthOf(request: string): number {
    return this.#entries.get(request)?.length ?? 0;
  }

  /** Feeds for rows in order; undefined stands for a ghost, whose values do not matter. Padding lies behind the values. */
  feeds(requests: readonly (string | undefined)[], cached: number): Record<string, Tensor> {
    if (cached === 0) return {};
    const feeds: Record<string, Tensor> = {};
    for (const { keyInput, valueInput, keyOutput, valueOutput, heads, width } of this.#plans) {
      feeds[keyInput] = this.#batch(keyOutput, requests, cached, heads, width);
      feeds[valueInput] = this.#batch(valueOutput, requests, cached, heads, width);
    }
    return feeds;
  }

  #batch(
    name: string,
    requests: readonly (string | undefined)[],
    cached: number,
    heads: number,
    width: number,
  ): Tensor {
    const only = requests.length === 1 && requests[0] !== undefined ? this.#entries.get(requests[0]) : undefined;
    // One request alone is fed as it lies, without a copy.
    if (only?.capacity === cached) return only.tensors.get(name) as Tensor;
    const batch = this.#executor.tensor("float32", [requests.length, heads, cached, width]);
    const into = batch.data as Float32Array;
    into.fill(0);
    for (const [row, request] of requests.entries()) {
      const entry = request === undefined ? undefined : this.#entries.get(request);
      if (entry === undefined || entry.length === 0) continue;
      const from = entry.tensors.get(name)?.data as Float32Array;
      for (let head = 0; head < heads; head++) {
        const start = head * entry.capacity * width;
        into.set(from.subarray(start, start + entry.length * width), (row * heads + head) * cached * width);
      }
    }
    return batch;
  }

  /** Gives batches back to the pool; a request's own tensor stays. */
  recycle(feeds: Readonly<Record<string, Tensor>>): void {
    const own = new Set([...this.#entries.values()].flatMap((entry) => [...entry.tensors.values()]));
    this.#executor.recycle(Object.values(feeds).filter((tensor) => !own.has(tensor)));
  }

  /** Adds the new positions of one row of a pass. */
  append(request: string, results: Readonly<Record<string, Tensor>>, row: number, tokens: number): void {
    const entry = this.#entries.get(request) ?? { length: 0, capacity: 0, tensors: new Map() };
    this.#entries.set(request, entry);
    const length = entry.length + tokens;
    if (bucketOf(length) > entry.capacity) this.#grow(entry, bucketOf(length));
    for (const { keyOutput, valueOutput, heads, width } of this.#plans)
      for (const name of [keyOutput, valueOutput]) {
        const from = results[name]?.data as Float32Array;
        const into = entry.tensors.get(name)?.data as Float32Array;
        for (let head = 0; head < heads; head++) {
          const start = (row * heads + head) * tokens * width;
          into.set(from.subarray(start, start + tokens * width), (head * entry.capacity + entry.length) * width);
        }
      }
    entry.length = length;
  }

  #grow(entry: Entry, capacity: number): void {
    for (const { keyOutput, valueOutput, heads, width } of this.#plans)
      for (const name of [keyOutput, valueOutput]) {
        const grown = this.#executor.tensor("float32", [1, heads, capacity, width]);
        const into = (grown.data as Float32Array).fill(0);
        const before = entry.tensors.get(name);
        if (before) {
          const from = before.data as Float32Array;
          for (let head = 0; head < heads; head++) {
            const start = head * entry.capacity * width;
            into.set(from.subarray(start, start + entry.length * width), head * capacity * width);
          }
          this.#executor.recycle([before]);
        }
        entry.tensors.set(name, grown);
      }
    assert(capacity > entry.capacity, "caches only grow");
    entry.capacity = capacity;
  }

  drop(request: string): void {
    const entry = this.#entries.get(request);
    if (entry === undefined) return;
    this.#entries.delete(request);
    this.#executor.recycle(entry.tensors.values());
  }

  clear(): void {
    for (const request of [...this.#entries.keys()]) this.drop(request);
  }
}
