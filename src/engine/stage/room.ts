// The memory in which a worker's stages compute: rows of values between graphs and attention, pages of caches. It is the
// engine's own where the engine works inside one memory, so that nothing is copied between the two.

import { fail } from "../../core/errors.ts";
import { type DType, elementCount, type Shape, type Tensor, tensorBytes, viewData } from "../../core/tensor.ts";
import { Heap, LinearMemory } from "../portable/linear-memory.ts";

const chunkBytes = 1 << 20;

export class Room {
  readonly memory: WebAssembly.Memory;
  readonly #buffer: SharedArrayBuffer;
  readonly #heap: Heap;

  constructor(memory: LinearMemory = new LinearMemory()) {
    this.memory = memory.memory;
    this.#buffer = memory.buffer;
    this.#heap = new Heap(memory, chunkBytes);
  }

  /** The address of so many bytes, which hold anything. */
  take(bytes: number, what: string): number {
    const place = this.#heap.allocate(bytes);
    return place ?? fail("resource_exhausted", `there is no memory left for ${what}: ask for less at once`);
  }

  free(place: number): void {
    this.#heap.free(place);
  }

  bytes(place: number, length: number): Uint8Array {
    return new Uint8Array(this.#buffer, place, length);
  }

  /** What lies there, as a tensor. */
  view(place: number, dtype: DType, shape: Shape): Tensor {
    return { dtype, shape, data: viewData(dtype, this.bytes(place, tensorBytes(dtype, shape))) };
  }

  /** A copy that stays until it is freed. */
  keep({ dtype, shape, data }: Tensor, what: string): number {
    const place = this.take(tensorBytes(dtype, shape), what);
    const target = this.view(place, dtype, shape).data as Float32Array;
    if (elementCount(shape) > 0) target.set(data as Float32Array);
    return place;
  }
}

/** What one run takes of a room, given back all at once. */
export class Frame {
  readonly #room: Room;
  readonly #places: number[] = [];

  constructor(room: Room) {
    this.#room = room;
  }

  take(bytes: number): number {
    const place = this.#room.take(bytes, "a pass of a served model");
    this.#places.push(place);
    return place;
  }

  close(): void {
    for (const place of this.#places.splice(0)) this.#room.free(place);
  }
}
