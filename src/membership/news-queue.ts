// What a member still has to tell others: the newest about each subject, to so many different partners as it takes until
// everybody has it. An answered call is proof that it arrived, so nothing is told twice to the same partner.

import { bytesOfNews, idOfNews, type MemberId, type News } from "./member.ts";

interface Item {
  readonly news: News;
  readonly bytes: number;
  /** Partners that are still to be told. */
  left: number;
  /** Who has it: told it, or was told. */
  readonly known: MemberId[];
}

export class NewsQueue {
  readonly #items = new Map<MemberId, Item>();
  #bytes = 0;

  get size(): number {
    return this.#items.size;
  }

  /** Replaces what was to be told about the same subject. `from`: who has told it. */
  add(news: News, repeats: number, from?: MemberId): void {
    const id = idOfNews(news);
    this.#remove(id);
    const bytes = bytesOfNews(news);
    this.#items.set(id, { news, bytes, left: repeats, known: from === undefined ? [] : [from] });
    this.#bytes += bytes;
  }

  /** For one partner, the longest waiting first, up to `bytes`; up to `bytesMax` while much is new. */
  take(to: MemberId, bytes: number, bytesMax: number): News[] {
    if (this.#items.size === 0) return [];
    let room = Math.min(bytesMax, Math.max(bytes, this.#bytes / 4));
    const taken: News[] = [];
    for (const item of this.#items.values()) {
      if (item.known.includes(to)) continue;
      room -= item.bytes;
      if (room < 0 && taken.length > 0) break;
      taken.push(item.news);
      if (room < 0) break;
    }
    return taken;
  }

  /** What was taken has arrived. */
  told(to: MemberId, taken: readonly News[]): void {
    for (const news of taken) {
      const id = idOfNews(news);
      const item = this.#items.get(id);
      if (item === undefined || item.news !== news || item.known.includes(to)) continue;
      item.known.push(to);
      item.left -= 1;
      if (item.left <= 0) this.#remove(id);
      else {
        // Behind those that were told less often.
        this.#items.delete(id);
        this.#items.set(id, item);
      }
    }
  }

  /** Somebody tells what is to be told here too: no need to tell it back. */
  has(from: MemberId, id: MemberId): void {
    const item = this.#items.get(id);
    if (item !== undefined && !item.known.includes(from)) item.known.push(from);
  }

  #remove(id: MemberId): void {
    const item = this.#items.get(id);
    if (item === undefined) return;
    this.#bytes -= item.bytes;
    this.#items.delete(id);
  }
}
