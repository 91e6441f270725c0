// Requests whose caches others may begin with: those that run, and those that are over and were kept for a while. Prompts of
// chats and agents begin alike, so that their first token comes at once. Whole pages are shared, in exactly the bits that
// computing them again would give.

import { pagePositions } from "../../engine/stage/attention.ts";

export interface Cached {
  readonly key: string;
  /** What the cached positions hold. */
  readonly tokens: readonly number[];
  /** Which of the model's adapters they were made with: others make something else of the same tokens. */
  readonly adapter: number;
}

/** Of those kept after their end. */
const keptMax = 64;

export class Prefixes {
  /** Least recently used first. */
  readonly #kept = new Map<string, Cached>();
  #positions = 0;

  get positions(): number {
    return this.#positions;
  }

  /** Those that have to go so that no more than so many positions are kept. */
  shrink(positionsMax: number): string[] {
    const gone: string[] = [];
    for (const { key, tokens } of this.#kept.values()) {
      if (this.#positions <= positionsMax && this.#kept.size <= keptMax) break;
      this.#kept.delete(key);
      this.#positions -= tokens.length;
      gone.push(key);
    }
    return gone;
  }

  keep(cached: Cached): void {
    this.#kept.set(cached.key, cached);
    this.#positions += cached.tokens.length;
  }

  /** The caches are gone, whoever let them go. */
  forget(): string[] {
    const gone = [...this.#kept.keys()];
    this.#kept.clear();
    this.#positions = 0;
    return gone;
  }

  /** The longest common beginning in whole pages; the last token is always computed, since its logits are wanted. */
  best(
    tokens: readonly number[],
    adapter: number,
    running: readonly Cached[],
  ): { request: string; positions: number } | undefined {
    let found: { request: string; positions: number } | undefined;
    for (const { key, tokens: theirs, adapter: other } of [...running, ...this.#kept.values()]) {
      if (other !== adapter) continue;
      const positions = commonPages(tokens, theirs);
      if (positions > (found?.positions ?? 0)) found = { request: key, positions };
    }
    const kept = found && this.#kept.get(found.request);
    if (kept) {
      this.#kept.delete(kept.key);
      this.#kept.set(kept.key, kept);
    }
    return found;
  }
}

function commonPages(a: readonly number[], b: readonly number[]): number {
  const most = Math.min(a.length - 1, b.length);
  let same = 0;
  while (same < most && a[same] === b[same]) same++;
  return Math.floor(same / pagePositions) * pagePositions;
}
