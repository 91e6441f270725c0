// Counts who holds a tensor of the pool, where that is more than one: a message that is kept, sent and computed with at
// the same time lies in memory once, and goes back to the pool when the last of them is done.

import type { Tensor, TensorData } from "../../core/tensor.ts";

type Held = Pick<Tensor, "data">;

export class Holders {
  /** By memory and place in it: holders beyond the first. */
  readonly #more = new Map<ArrayBufferLike, Map<number, number>>();

  add({ buffer, byteOffset }: TensorData): void {
    const places = this.#more.get(buffer) ?? new Map<number, number>();
    this.#more.set(buffer, places);
    places.set(byteOffset, (places.get(byteOffset) ?? 0) + 1);
  }

  /** Of tensors that are given back, those that nobody else holds. */
  last(tensors: Iterable<Held>): Held[] {
    return [...tensors].filter(({ data }) => !this.#remove(data));
  }

  /** False if nobody else held it. */
  #remove({ buffer, byteOffset }: TensorData): boolean {
    const places = this.#more.get(buffer);
    const count = places?.get(byteOffset);
    if (places === undefined || count === undefined) return false;
    if (count > 1) places.set(byteOffset, count - 1);
    else places.delete(byteOffset);
    if (places.size === 0) this.#more.delete(buffer);
    return true;
  }
}
