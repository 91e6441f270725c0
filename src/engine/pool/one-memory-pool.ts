// The pool of an executor whose engine works inside one memory (portable/linear-memory.ts): weights, messages and saved
// tensors are places in it, so that graphs and kernels use them where they are. Only when it is full are blocks by
// themselves handed out, which the engine copies.

import { assert } from "../../core/assert.ts";
import { type DType, type Shape, type Tensor, type TensorData, tensorBytes, viewData } from "../../core/tensor.ts";
import type { SharedBytes } from "../engine.ts";
import { Heap, type LinearMemory } from "../portable/linear-memory.ts";
import { type MemoryBlock, type MemoryPool, SharedMemoryPool, stagger } from "./memory.ts";

/** Regions for small tensors; larger ones take what they need. */
const chunkBytes = 4 << 20;

/** The number that workers know the one memory by; blocks of the pool for the rest count up from 1. */
export const wholeMemoryId = 0;

export class OneMemoryPool implements MemoryPool {
  readonly #memory: LinearMemory;
  readonly #heap: Heap;
  readonly #whole: MemoryBlock;
  readonly #beyond: SharedMemoryPool;
  /** Where lent tensors lie. */
  readonly #lent = new Set<number>();
  readonly #returned = new WeakSet<TensorData>();
  /** Places of allocated blocks in the heap, by where their first byte is. */
  readonly #blocks = new Map<number, number>();
  #count = 0;

  constructor(memory: LinearMemory, dropped: (block: MemoryBlock) => void) {
    this.#memory = memory;
    this.#heap = new Heap(memory, chunkBytes);
    this.#whole = { id: wholeMemoryId, buffer: memory.buffer, memory: memory.memory };
    this.#beyond = new SharedMemoryPool(dropped);
  }

  allocate(bytes: number): SharedBytes {
    const shift = stagger(bytes, this.#count++);
    const place = this.#heap.allocate(bytes + shift, true);
    if (place === undefined) return this.#beyond.allocate(bytes);
    this.#blocks.set(place + shift, place);
    return { bytes, buffer: this.#memory.buffer, offset: place + shift };
  }

  free(block: SharedBytes): void {
    if (block.buffer !== this.#memory.buffer) {
      this.#beyond.free(block);
      return;
    }
    const place = this.#blocks.get(block.offset);
    assert(place !== undefined, "freed memory was allocated here and not freed before");
    this.#blocks.delete(block.offset);
    this.#heap.free(place);
  }

  tensor(dtype: DType, shape: Shape): Tensor {
    const bytes = tensorBytes(dtype, shape);
    const place = this.#heap.allocate(bytes);
    if (place === undefined) return this.#beyond.tensor(dtype, shape);
    this.#lent.add(place);
    return { dtype, shape, data: viewData(dtype, new Uint8Array(this.#memory.buffer, place, bytes)) };
  }

  recycle(tensors: Iterable<Pick<Tensor, "data">>): void {
    for (const tensor of tensors) {
      const { data } = tensor;
      if (data.buffer !== this.#memory.buffer) {
        this.#beyond.recycle([tensor]);
        continue;
      }
      // Lent twice at a time, a tensor would be overwritten while it is read.
      assert(!this.#returned.has(data), "a tensor goes back to the pool once");
      if (!this.#lent.delete(data.byteOffset)) continue;
      this.#returned.add(data);
      this.#heap.free(data.byteOffset);
    }
  }

  trim(): void {
    this.#beyond.trim();
  }

  blockOf(buffer: ArrayBufferLike): MemoryBlock | undefined {
    return buffer === this.#memory.buffer ? this.#whole : this.#beyond.blockOf(buffer);
  }
}
