// Tensors that a PNode keeps for its neighbours until the recovery line passes: in memory up to a bound, the oldest
// beyond it on disk, and beyond the disk's bound VNodes are told to slow down.

import { assert } from "../../core/assert.ts";
import { fail } from "../../core/errors.ts";
import type { Tasks } from "../../core/tasks.ts";
import type { WireTensor } from "../../vnode/wire.ts";
import type { SpillStorage } from "../options.ts";

/** A tensor that may lie on disk. Type, shape and size are always at hand. */
export class StoredTensor {
  readonly dtype: WireTensor["dtype"];
  readonly shape: WireTensor["shape"];
  readonly length: number;
  #bytes: Uint8Array | undefined;
  #read: (() => Promise<Uint8Array>) | undefined;

  constructor(tensor: WireTensor) {
    this.dtype = tensor.dtype;
    this.shape = tensor.shape;
    this.length = tensor.bytes.byteLength;
    this.#bytes = tensor.bytes;
  }

  get inMemory(): boolean {
    return this.#bytes !== undefined;
  }

  /** Undefined unless in memory. */
  peek(): WireTensor | undefined {
    return this.#bytes && { dtype: this.dtype, shape: this.shape, bytes: this.#bytes };
  }

  /** A handle of somebody else's on the same bytes, since this one may move to disk; undefined unless in memory. */
  share(): StoredTensor | undefined {
    const tensor = this.peek();
    return tensor && new StoredTensor(tensor);
  }

  /** The same from disk. */
  async copy(): Promise<StoredTensor> {
    return new StoredTensor(await this.load());
  }

  async load(): Promise<WireTensor> {
    if (this.#bytes !== undefined) return { dtype: this.dtype, shape: this.shape, bytes: this.#bytes };
    assert(this.#read !== undefined, "a tensor is in memory or on disk");
    const bytes = await this.#read();
    if (bytes.byteLength !== this.length) fail("data_loss", "a retained tensor on disk has changed its size");
    return { dtype: this.dtype, shape: this.shape, bytes };
  }

  /** From now on the bytes are read when they are needed. */
  moveOut(read: () => Promise<Uint8Array>): void {
    this.#read = read;
    this.#bytes = undefined;
  }
}

export interface RetentionOptions {
  readonly memoryBytesMax: number;
  readonly diskBytesMax: number;
  readonly storage?: SpillStorage;
  readonly tasks: Tasks;
  /** Hears when the bounds are reached, and when there is room again. */
  readonly onFull: (full: boolean) => void;
}

export class Retention {
  readonly #options: RetentionOptions;
  /** In the order in which they were made, so that the oldest is spilled first. */
  readonly #inMemory = new Set<StoredTensor>();
  readonly #onDisk = new Map<StoredTensor, string>();
  #memoryBytes = 0;
  #diskBytes = 0;
  #count = 0;
  #spilling = false;
  #full = false;

  constructor(options: RetentionOptions) {
    this.#options = options;
  }

  get bytes(): number {
    return this.#memoryBytes + this.#diskBytes;
  }

  get memoryBytes(): number {
    return this.#memoryBytes;
  }

  get full(): boolean {
    return this.#full;
  }

  keep(tensor: WireTensor): StoredTensor {
    const stored = new StoredTensor(tensor);
    this.#inMemory.add(stored);
    this.#memoryBytes += stored.length;
    this.#spillIfNeeded();
    this.#checkFull();
    return stored;
  }

  /** Releasing twice, or what was never kept, is fine. */
  release(stored: StoredTensor): void {
    if (this.#inMemory.delete(stored)) this.#memoryBytes -= stored.length;
    const key = this.#onDisk.get(stored);
    if (key !== undefined) {
      this.#onDisk.delete(stored);
      this.#diskBytes -= stored.length;
      this.#options.tasks.run("remove a retained tensor", async () => this.#options.storage?.remove(key));
    }
    this.#checkFull();
  }

  #spillIfNeeded(): void {
    const { storage, memoryBytesMax, diskBytesMax, tasks } = this.#options;
    if (this.#spilling || storage === undefined || this.#memoryBytes <= memoryBytesMax) return;
    if (this.#diskBytes >= diskBytesMax) return;
    this.#spilling = true;
    tasks.run("spill retained tensors", async () => {
      try {
        while (this.#memoryBytes > memoryBytesMax && this.#diskBytes < diskBytesMax) {
          const [oldest] = this.#inMemory;
          if (oldest === undefined) break;
          await this.#spill(oldest, storage);
        }
      } finally {
        this.#spilling = false;
        this.#checkFull();
      }
    });
  }

  async #spill(stored: StoredTensor, storage: SpillStorage): Promise<void> {
    const tensor = stored.peek();
    assert(tensor !== undefined, "what is spilled was in memory");
    const key = `retained-${++this.#count}`;
    await storage.write(key, tensor.bytes);
    if (!this.#inMemory.delete(stored)) {
      await storage.remove(key);
      return;
    }
    this.#memoryBytes -= stored.length;
    this.#diskBytes += stored.length;
    this.#onDisk.set(stored, key);
    stored.moveOut(() => storage.read(key));
  }

  #checkFull(): void {
    const { memoryBytesMax, diskBytesMax, storage } = this.#options;
    // Between the bounds the disk is catching up; twice the memory means that it does not.
    const diskFull = storage === undefined || this.#diskBytes >= diskBytesMax;
    const full = this.#memoryBytes > (diskFull ? memoryBytesMax : 2 * memoryBytesMax);
    if (full === this.#full) return;
    this.#full = full;
    this.#options.onFull(full);
  }
}
