// The memory in which a worker's stages compute: rows of values between graphs and attention, pages of caches. It is the
// engine's own where the engine works inside one memory, so that nothing is copied between the two.

import { assert } from "../../core/assert.ts";
import { sameBytes } from "../../core/bytes.ts";
import { fail } from "../../core/errors.ts";
import { bytesOf, type DType, type Shape, type Tensor, tensorBytes, viewData } from "../../core/tensor.ts";
import type { ValueInfo } from "../../graph/model.ts";
import { shapeFor } from "../../graph/rows.ts";
import { Heap, LinearMemory } from "../portable/linear-memory.ts";

const chunkBytes = 1 << 20;
/** Enough for what a token takes of a unit or two. */
const blockBytes = 1 << 18;
/** Blocks that are kept for the next frame; a token's pass needs a few. */
const spareMax = 16;
/** Places whose views are kept: passes of as many rows find their values at the same ones. */
const placesMax = 4_096;
const viewsAtPlace = 4;

interface Block {
  readonly place: number;
  readonly bytes: number;
}

export class Room {
  readonly memory: WebAssembly.Memory;
  readonly #buffer: SharedArrayBuffer;
  readonly #heap: Heap;
  /** The next one last. */
  readonly #spare: Block[] = [];
  readonly #views = new Map<number, readonly Tensor[]>();
  /** What was last asked for. */
  readonly #rowViews = new Map<number, { readonly info: ValueInfo; readonly rows: number; readonly view: Tensor }>();
  /** By place. */
  readonly #kept = new Map<number, { readonly length: number; users: number }>();

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

  /** What lies there, as a tensor; the same object for the same place and shape, so that what an engine makes of it can be kept too. */
  view(place: number, dtype: DType, shape: Shape): Tensor {
    const there = this.#views.get(place);
    const known = there?.find((view) => view.dtype === dtype && isSame(view.shape, shape));
    if (known !== undefined) return known;
    if (this.#views.size >= placesMax) this.#views.clear();
    const view = { dtype, shape, data: viewData(dtype, this.bytes(place, tensorBytes(dtype, shape))) };
    this.#views.set(place, [view, ...(there ?? []).slice(0, viewsAtPlace - 1)]);
    return view;
  }

  /** So many rows that lie there. */
  rowsView(place: number, info: ValueInfo, rows: number): Tensor {
    const there = this.#rowViews.get(place);
    if (there !== undefined && there.info === info && there.rows === rows) return there.view;
    if (this.#rowViews.size >= placesMax) this.#rowViews.clear();
    const view = this.view(place, info.dtype, shapeFor(info.shape, rows));
    this.#rowViews.set(place, { info, rows, view });
    return view;
  }

  /** A block of at least so many bytes, for a frame. */
  lend(bytes: number): Block {
    const index = bytes > blockBytes ? -1 : this.#spare.length - 1;
    const spare = this.#spare[index];
    if (spare !== undefined) {
      this.#spare.length = index;
      return spare;
    }
    const size = Math.max(bytes, blockBytes);
    return { place: this.take(size, "a pass of a served model"), bytes: size };
  }

  giveBack(block: Block): void {
    if (block.bytes === blockBytes && this.#spare.length < spareMax) this.#spare.push(block);
    else this.free(block.place);
  }

  /** A copy that stays until everybody who kept it has let it go. What is the same is kept once: layers have the same tables of positions. */
  keep(tensor: Tensor, what: string): number {
    const bytes = bytesOf(tensor);
    for (const [place, kept] of this.#kept)
      if (kept.length === bytes.length && sameBytes(this.bytes(place, kept.length), bytes)) {
        kept.users++;
        return place;
      }
    const place = this.take(bytes.length, what);
    this.bytes(place, bytes.length).set(bytes);
    this.#kept.set(place, { length: bytes.length, users: 1 });
    return place;
  }

  letGo(place: number): void {
    const kept = this.#kept.get(place);
    assert(kept !== undefined, "only what is kept is let go");
    if (--kept.users > 0) return;
    this.#kept.delete(place);
    this.free(place);
  }
}

/** What one run takes of a room, given back all at once: pieces of a few blocks, one behind the other. */
export class Frame {
  readonly #room: Room;
  readonly #blocks: Block[] = [];
  #next = 0;
  #end = 0;

  constructor(room: Room) {
    this.#room = room;
  }

  take(bytes: number): number {
    const size = Math.ceil(Math.max(bytes, 1) / 64) * 64;
    if (this.#next + size > this.#end) {
      const block = this.#room.lend(size);
      this.#blocks.push(block);
      [this.#next, this.#end] = [block.place, block.place + block.bytes];
    }
    const place = this.#next;
    this.#next += size;
    return place;
  }

  close(): void {
    // The last first: the next frame gets them in the same order, and its values lie where these did.
    for (const block of this.#blocks.splice(0).reverse()) this.#room.giveBack(block);
    [this.#next, this.#end] = [0, 0];
  }
}

function isSame(a: Shape, b: Shape): boolean {
  return a.length === b.length && a.every((size, i) => size === b[i]);
}
