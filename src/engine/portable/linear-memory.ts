// The one memory of an executor: a shared WebAssembly memory that the pool, the kernels and the graphs of all workers
// address. Threads take regions of it by moving one counter; what they took is theirs alone, and each divides it by itself.

import { assert } from "../../core/assert.ts";
import { fail } from "../../core/errors.ts";

const pageBytes = 65536;

/** As much as 32-bit addresses reach. Pages that nobody touches cost nothing but addresses. */
const pagesMax = 65536;
const pagesMin = 1024;

/** The first page holds the counter of taken pages; the last is never taken, so that vectors may be read across an end. */
const reservedPages = 1;

function openMemory(pages: number): WebAssembly.Memory {
  try {
    return new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true });
  } catch (thrown) {
    // Where address space is rationed, less of it has to do.
    if (pages / 2 < pagesMin) throw thrown;
    return openMemory(Math.floor(pages / 2));
  }
}

export class LinearMemory {
  readonly memory: WebAssembly.Memory;
  readonly buffer: SharedArrayBuffer;
  readonly #taken: Int32Array;
  readonly #pages: number;

  /** Another thread's memory, or a new one. */
  constructor(memory?: WebAssembly.Memory) {
    this.memory = memory ?? openMemory(pagesMax);
    this.buffer = this.memory.buffer as unknown as SharedArrayBuffer;
    this.#taken = new Int32Array(this.buffer, 0, 1);
    this.#pages = this.buffer.byteLength / pageBytes - reservedPages;
    assert(this.#pages > reservedPages, "the memory has room for more than its counter");
    Atomics.compareExchange(this.#taken, 0, 0, reservedPages);
  }

  /** The start of so many zeroed bytes (in whole pages) that nobody else has; undefined where there are no more. */
  take(bytes: number): { readonly start: number; readonly end: number } | undefined {
    const pages = Math.ceil(bytes / pageBytes);
    const first = Atomics.add(this.#taken, 0, pages);
    if (first + pages <= this.#pages) return { start: first * pageBytes, end: (first + pages) * pageBytes };
    Atomics.sub(this.#taken, 0, pages);
    return undefined;
  }
}

interface Span {
  readonly start: number;
  end: number;
  /** Never written since it was taken. */
  readonly isZero: boolean;
}

/** Space within regions of the one memory, for one thread: first fit, neighbours join again when they are freed. */
export class Heap {
  readonly #memory: LinearMemory;
  readonly #chunkBytes: number;
  readonly #sizes = new Map<number, number>();
  #free: Span[] = [];

  /** Regions are taken in pieces of at least `chunkBytes`. */
  constructor(memory: LinearMemory, chunkBytes: number) {
    this.#memory = memory;
    this.#chunkBytes = chunkBytes;
  }

  /** The place of so many bytes, or undefined where the memory is full; `zeroed` ones hold zeros. */
  allocate(bytes: number, zeroed = false): number | undefined {
    const size = Math.ceil(Math.max(bytes, 1) / 64) * 64;
    const span = this.#find(size) ?? this.#refill(size);
    if (span === undefined) return undefined;
    const { start, isZero } = span;
    this.#free = this.#free.filter((each) => each !== span);
    if (span.end > start + size) this.#insert({ start: start + size, end: span.end, isZero });
    this.#sizes.set(start, size);
    if (zeroed && !isZero) new Uint8Array(this.#memory.buffer, start, size).fill(0);
    return start;
  }

  /** Written space first, so that untouched pages stay untouched. */
  #find(size: number): Span | undefined {
    const fits = this.#free.filter(({ start, end }) => end - start >= size);
    return fits.find(({ isZero }) => !isZero) ?? fits[0];
  }

  #refill(size: number): Span | undefined {
    const region = this.#memory.take(Math.max(size, this.#chunkBytes)) ?? this.#memory.take(size);
    if (region === undefined) return undefined;
    this.#insert({ ...region, isZero: true });
    return this.#find(size);
  }

  holds(start: number): boolean {
    return this.#sizes.has(start);
  }

  free(start: number): void {
    const size = this.#sizes.get(start);
    assert(size !== undefined, "what is freed was allocated here and not freed before");
    this.#sizes.delete(start);
    this.#insert({ start, end: start + size, isZero: false });
  }

  #insert(span: Span): void {
    const spans = [...this.#free, span].sort((a, b) => a.start - b.start);
    this.#free = [];
    for (const each of spans) {
      const before = this.#free.at(-1);
      if (before !== undefined && before.end === each.start && before.isZero === each.isZero) before.end = each.end;
      else this.#free.push({ ...each });
    }
  }
}

/** One growing region for what a thread needs only while it runs a graph. */
export class Arena {
  readonly #memory: LinearMemory;
  #start = 0;
  #end = 0;

  constructor(memory: LinearMemory) {
    this.#memory = memory;
  }

  /** The start of at least so many bytes; they hold anything. */
  reserve(bytes: number, what: string): number {
    if (this.#end - this.#start >= bytes) return this.#start;
    const more = this.#memory.take(bytes - (this.#end - this.#start));
    if (more !== undefined && more.start === this.#end) {
      this.#end = more.end;
      return this.#start;
    }
    const whole = this.#memory.take(bytes);
    if (whole === undefined)
      fail(
        "resource_exhausted",
        `${what} needs ${bytes} bytes at once: use smaller microbatches, or the native engine`,
      );
    this.#start = whole.start;
    this.#end = whole.end;
    return this.#start;
  }
}
