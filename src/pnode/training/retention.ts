// Tensors that a PNode keeps for its neighbours until the recovery line passes: in memory up to a bound, the oldest
// beyond it on disk, and beyond the disk's bound VNodes are told to slow down.

import { assert } from "../../core/assert.ts";
import { fail } from "../../core/errors.ts";
import { type ContentHash, hashOfContent } from "../../core/hash.ts";
import type { Tasks } from "../../core/tasks.ts";
import { giveBack, lend, type WireTensor } from "../../vnode/wire.ts";
import type { SpillStorage } from "../options.ts";

/**
 * A tensor that may lie on disk. Type, shape and size are always at hand. Each handle holds its bytes until it is
 * released or used up; several handles may hold the same bytes.
 */
export class StoredTensor {
  readonly dtype: WireTensor["dtype"];
  readonly shape: WireTensor["shape"];
  readonly length: number;
  #tensor: WireTensor | undefined;
  #read: (() => Promise<Uint8Array>) | undefined;
  #hash: string | undefined;

  /** From here on the handle holds the tensor. */
  constructor(tensor: WireTensor) {
    this.dtype = tensor.dtype;
    this.shape = tensor.shape;
    this.length = tensor.bytes.byteLength;
    this.#tensor = tensor;
  }

  get inMemory(): boolean {
    return this.#tensor !== undefined;
  }

  /** Without holding it; undefined unless in memory. */
  peek(): WireTensor | undefined {
    return this.#tensor;
  }

  /** Empty until somebody has asked for it. */
  get knownHash(): string {
    return this.#hash ?? "";
  }

  /** A handle of somebody else's on the same bytes, since this one may move to disk; undefined unless in memory. */
  share(): StoredTensor | undefined {
    if (this.#tensor === undefined) return undefined;
    const other = new StoredTensor(lend(this.#tensor));
    other.#hash = this.#hash;
    return other;
  }

  /** The tensor for whoever gives it back; the handle is used up. */
  async take(): Promise<WireTensor> {
    const tensor = this.#tensor;
    if (tensor === undefined) return this.#fromDisk();
    this.#tensor = undefined;
    return tensor;
  }

  /** The tensor for whoever gives it back; the handle holds it too. */
  async borrow(): Promise<WireTensor> {
    return this.#tensor === undefined ? this.#fromDisk() : lend(this.#tensor);
  }

  /** SHA-256 of what it holds, taken once, whoever asks. */
  hashOf(tensor: WireTensor): string {
    this.#hash ??= hashOfContent(tensor);
    return this.#hash;
  }

  /** The same, by whoever hashes fastest. */
  hashBy(tensor: WireTensor, hash: ContentHash): string | Promise<string> {
    if (this.#hash !== undefined) return this.#hash;
    const note = (found: string) => {
      this.#hash = found;
      return found;
    };
    const found = hash(tensor);
    return typeof found === "string" ? note(found) : found.then(note);
  }

  async #fromDisk(): Promise<WireTensor> {
    if (this.#read === undefined) fail("cancelled", "a retained tensor was given up: nobody needs it any more");
    const bytes = await this.#read();
    if (bytes.byteLength !== this.length) fail("data_loss", "a retained tensor on disk has changed its size");
    return { dtype: this.dtype, shape: this.shape, bytes };
  }

  /** From now on the bytes are read when they are needed. */
  moveOut(read: () => Promise<Uint8Array>): void {
    this.#read = read;
    this.#letGo();
  }

  /** Nobody needs the handle any more. Once more does no harm. */
  release(): void {
    this.#read = undefined;
    this.#letGo();
  }

  #letGo(): void {
    const tensor = this.#tensor;
    this.#tensor = undefined;
    if (tensor !== undefined) giveBack(tensor);
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
  readonly #held = new Map<StoredTensor, { holders: number; released: boolean }>();
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

  /** Until the returned function is called, its bytes stay, whoever releases it. */
  hold(stored: StoredTensor): () => void {
    const held = this.#held.get(stored) ?? { holders: 0, released: false };
    this.#held.set(stored, held);
    held.holders++;
    return () => {
      if (--held.holders > 0) return;
      this.#held.delete(stored);
      if (held.released) this.release(stored);
    };
  }

  /** Also what was never kept here, and once more does no harm. */
  release(stored: StoredTensor): void {
    const held = this.#held.get(stored);
    if (held !== undefined) {
      held.released = true;
      return;
    }
    stored.release();
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
    // Its bytes must stay as they are until they are written, whoever releases it meanwhile.
    lend(tensor);
    await storage.write(key, tensor.bytes).finally(() => giveBack(tensor));
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
