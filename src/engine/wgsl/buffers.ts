// Memory of a browser's GPU. Buffers that are given back wait for the next that needs one of their size: what was submitted before is
// computed before, so that nobody has to wait for a buffer's last reader. How much there is at once is bounded.

import { fail } from "../../core/errors.ts";
import { slotBytes } from "./plan.ts";

/** Usages as WebGPU numbers them: the names exist in browsers alone. */
const usages = { mapRead: 0x1, copySource: 0x4, copyTarget: 0x8, uniform: 0x40, storage: 0x80 };

export type BufferUse = "storage" | "staging";

const flags: Readonly<Record<BufferUse, number>> = {
  storage: usages.storage | usages.uniform | usages.copySource | usages.copyTarget,
  staging: usages.mapRead | usages.copyTarget,
};

export interface BufferMaker {
  createBuffer(descriptor: { readonly size: number; readonly usage: number }): GPUBuffer;
}

export class BufferStore {
  readonly #device: BufferMaker;
  readonly #bytesMax: number;
  readonly #free: Record<BufferUse, Map<number, GPUBuffer[]>> = { storage: new Map(), staging: new Map() };
  #bytes = 0;

  constructor(device: BufferMaker, bytesMax: number) {
    this.#device = device;
    this.#bytesMax = bytesMax;
  }

  /** All that the device has given, idle or not. */
  get bytes(): number {
    return this.#bytes;
  }

  take(bytes: number, use: BufferUse = "storage"): GPUBuffer {
    const size = slotBytes(bytes);
    const known = this.#free[use].get(size)?.pop();
    if (known !== undefined) return known;
    if (this.#bytes + size > this.#bytesMax) this.trim();
    if (this.#bytes + size > this.#bytesMax)
      fail(
        "resource_exhausted",
        `the GPU's memory that is lent is full: ${mib(this.#bytes)} of ${mib(this.#bytesMax)}`,
      );
    this.#bytes += size;
    return this.#device.createBuffer({ size, usage: flags[use] });
  }

  give(buffer: GPUBuffer, use: BufferUse = "storage"): void {
    const list = this.#free[use].get(buffer.size) ?? [];
    list.push(buffer);
    this.#free[use].set(buffer.size, list);
  }

  /** Idle memory goes back to the device. */
  trim(): void {
    for (const free of Object.values(this.#free)) {
      for (const buffer of [...free.values()].flat()) {
        this.#bytes -= buffer.size;
        buffer.destroy();
      }
      free.clear();
    }
  }
}

function mib(bytes: number): string {
  return `${Math.ceil(bytes / 2 ** 20)} MiB`;
}
