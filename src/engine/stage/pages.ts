// Keys and values of the positions that requests have behind them, in pages of fixed size that need not lie together.
// Requests that begin alike share the pages of their common beginning: whole pages are never written again.

import { fail } from "../../core/errors.ts";
import { pagePositions } from "./attention.ts";
import type { Room } from "./room.ts";

interface Entry {
  length: number;
  readonly pages: number[];
}

export class Pages {
  readonly #room: Room;
  readonly #pageBytes: number;
  readonly #entries = new Map<string, Entry>();
  /** Requests that use a page, where they are more than one. */
  readonly #sharers = new Map<number, number>();
  #used = 0;

  /** `pageBytes` is 0 for a unit without attention: then only lengths are kept. */
  constructor(room: Room, pageBytes: number) {
    this.#room = room;
    this.#pageBytes = pageBytes;
  }

  get requests(): number {
    return this.#entries.size;
  }

  get bytes(): number {
    return this.#used * this.#pageBytes;
  }

  lengthOf(request: string): number {
    return this.#entries.get(request)?.length ?? 0;
  }

  /**
   * Room for `tokens` positions from `position` on; what lay there is gone. Fails with `aborted` where positions before are
   * missing. The addresses of the request's pages, in order.
   */
  extend(request: string, position: number, tokens: number): readonly number[] {
    const entry = this.#entries.get(request) ?? { length: 0, pages: [] };
    if (entry.length < position)
      fail("aborted", `request ${request} has ${entry.length} positions here, not ${position}`);
    this.#entries.set(request, entry);
    entry.length = position + tokens;
    if (this.#pageBytes === 0) return entry.pages;
    const wanted = Math.ceil(entry.length / pagePositions);
    while (entry.pages.length > wanted) this.#leave(entry.pages.pop() as number);
    for (let index = Math.floor(position / pagePositions); index < entry.pages.length; index++) this.#own(entry, index);
    while (entry.pages.length < wanted) entry.pages.push(this.#take());
    return entry.pages;
  }

  /** `request` begins with the first positions of another: whole pages are shared. */
  share(request: string, other: string, positions: number): void {
    const from = this.#entries.get(other);
    if (from === undefined || from.length < positions || positions % pagePositions !== 0)
      fail("aborted", `request ${other} has ${from?.length ?? 0} positions here, ${request} begins with ${positions}`);
    this.drop(request);
    const pages = from.pages.slice(0, positions / pagePositions);
    for (const page of pages) this.#sharers.set(page, (this.#sharers.get(page) ?? 1) + 1);
    this.#entries.set(request, { length: positions, pages });
  }

  /** Nobody else may see what is written to a page: one that is shared is left, not changed. Its content is written anew. */
  #own(entry: Entry, index: number): void {
    const page = entry.pages[index] as number;
    if (!this.#sharers.has(page)) return;
    const fresh = this.#take();
    this.#room.bytes(fresh, this.#pageBytes).set(this.#room.bytes(page, this.#pageBytes));
    this.#leave(page);
    entry.pages[index] = fresh;
  }

  #take(): number {
    this.#used++;
    return this.#room.take(this.#pageBytes, "the caches of a served model");
  }

  #leave(page: number): void {
    const sharers = this.#sharers.get(page);
    if (sharers !== undefined) {
      if (sharers > 2) this.#sharers.set(page, sharers - 1);
      else this.#sharers.delete(page);
      return;
    }
    this.#used--;
    this.#room.free(page);
  }

  drop(request: string): void {
    for (const page of this.#entries.get(request)?.pages ?? []) this.#leave(page);
    this.#entries.delete(request);
  }

  clear(): void {
    for (const request of [...this.#entries.keys()]) this.drop(request);
  }
}
