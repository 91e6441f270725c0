// Shared memory of an executor: blocks for weights, and a pool of tensors for outputs. Memory is given back explicitly,
// since the garbage collector sees the small view and not the megabytes behind it.

import { assert } from "../../core/assert.ts";
import { type DType, elementCount, type Shape, type Tensor, tensorBytes, viewData } from "../../core/tensor.ts";
import type { SharedBytes } from "../engine.ts";
import { type KernelView, sharedMemory } from "../kernels/kernels.ts";

/** Kernels work in place on wasm memories only; below this size staging costs less than a memory of its own. */
const ownMemoryBytes = 65536;

export interface MemoryBlock {
  readonly id: number;
  readonly buffer: SharedArrayBuffer;
  /** Absent for small blocks. */
  readonly memory?: WebAssembly.Memory;
}

/**
 * Blocks that a kernel walks side by side must not be a multiple of 4 KiB apart: processors then take a load for one
 * that depends on an earlier store, and an update runs four times slower.
 */
const staggers = 4;
const staggerBytes = 1088;

/** How far from its natural start the block of that number should begin. */
export function stagger(bytes: number, number: number): number {
  return bytes < ownMemoryBytes ? 0 : (number % staggers) * staggerBytes;
}

/** Pool memory that nobody uses beyond this many bytes is let go. */
const idleBytesMax = 256 << 20;

/** Memory that an executor's threads share. */
export interface MemoryPool {
  allocate(bytes: number): SharedBytes;
  free(memory: SharedBytes): void;
  tensor(dtype: DType, shape: Shape): Tensor;
  recycle(tensors: Iterable<Pick<Tensor, "data">>): void;
  /** Lets go of everything that is not lent. */
  trim(): void;
  blockOf(buffer: ArrayBufferLike): MemoryBlock | undefined;
}

/** A memory of its own for every large block, which goes back to the machine when it is freed. */
export class SharedMemoryPool implements MemoryPool {
  readonly #blocks = new Map<SharedArrayBuffer, MemoryBlock>();
  readonly #idle = new Map<number, MemoryBlock[]>();
  readonly #pooled = new Map<SharedArrayBuffer, "lent" | "idle">();
  readonly #dropped: (block: MemoryBlock) => void;
  #idleBytes = 0;
  #nextId = 1;

  /** `dropped` is told of every block that is let go, so that others forget it too. */
  constructor(dropped: (block: MemoryBlock) => void) {
    this.#dropped = dropped;
  }

  allocate(bytes: number): SharedBytes {
    const offset = stagger(bytes, this.#nextId);
    return { bytes, buffer: this.#create(bytes + offset).buffer, offset };
  }

  free(memory: SharedBytes): void {
    assert(this.#blocks.has(memory.buffer), "freed memory was allocated here and not freed before");
    this.#drop(memory.buffer);
  }

  tensor(dtype: DType, shape: Shape): Tensor {
    const bytes = tensorBytes(dtype, shape);
    const capacity = capacityOf(bytes);
    const block = this.#idle.get(capacity)?.pop();
    const { buffer } = block ?? this.#create(capacity);
    if (block !== undefined) this.#idleBytes -= capacity;
    this.#pooled.set(buffer, "lent");
    const data = viewData(dtype, new Uint8Array(buffer, 0, bytes));
    assert(data.length === elementCount(shape), "a pooled tensor fills its shape");
    return { dtype, shape, data };
  }

  recycle(tensors: Iterable<Pick<Tensor, "data">>): void {
    for (const { data } of tensors) {
      const buffer = data.buffer as SharedArrayBuffer;
      const state = this.#pooled.get(buffer);
      if (state === undefined) continue;
      // Lent twice at a time, a tensor would be overwritten while it is read.
      assert(state === "lent", "a tensor goes back to the pool once");
      this.#toIdle(buffer);
    }
  }

  #toIdle(buffer: SharedArrayBuffer): void {
    const capacity = buffer.byteLength;
    if (this.#idleBytes + capacity > idleBytesMax) {
      this.#drop(buffer);
      return;
    }
    this.#pooled.set(buffer, "idle");
    this.#idleBytes += capacity;
    const same = this.#idle.get(capacity);
    const block = this.#blocks.get(buffer) as MemoryBlock;
    if (same === undefined) this.#idle.set(capacity, [block]);
    else same.push(block);
  }

  trim(): void {
    for (const same of this.#idle.values()) for (const { buffer } of same) this.#drop(buffer);
    this.#idle.clear();
    this.#idleBytes = 0;
  }

  blockOf(buffer: ArrayBufferLike): MemoryBlock | undefined {
    return this.#blocks.get(buffer as SharedArrayBuffer);
  }

  #create(bytes: number): MemoryBlock {
    const memory = bytes >= ownMemoryBytes ? sharedMemory(bytes) : undefined;
    const buffer = (memory?.buffer as unknown as SharedArrayBuffer) ?? new SharedArrayBuffer(bytes);
    const block: MemoryBlock = { id: this.#nextId++, buffer, ...(memory === undefined ? {} : { memory }) };
    this.#blocks.set(buffer, block);
    return block;
  }

  #drop(buffer: SharedArrayBuffer): void {
    const block = this.#blocks.get(buffer) as MemoryBlock;
    this.#blocks.delete(buffer);
    this.#pooled.delete(buffer);
    this.#dropped(block);
  }
}

/** A view together with the wasm memory behind it, where there is one. */
export function locate(view: Float32Array, pool: MemoryPool): KernelView {
  const memory = pool.blockOf(view.buffer)?.memory;
  return memory === undefined ? { view } : { view, memory };
}

/** Whole pages for what gets a memory of its own, else the next power of two, so that tensors of like size share. */
function capacityOf(bytes: number): number {
  if (bytes >= ownMemoryBytes) return Math.ceil(bytes / 65536) * 65536;
  let capacity = 64;
  while (capacity < bytes) capacity *= 2;
  return capacity;
}
