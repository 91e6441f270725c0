// Where every buffer of a graph lies in the arena: known before the first run. A buffer's place is free for others before
// its first and after its last step; large ones are placed first.

import type { Step } from "./context.ts";

/** Buffers start at a cache line, and walks that read four elements at a time may read a little too far. */
const alignment = 64;
const slackBytes = 64;

/** Buffers that loops walk side by side must not be a multiple of 4 KiB apart (see ../memory.ts). */
const staggerBytes = 192;

export interface Lifetime {
  readonly bytes: number;
  first: number;
  last: number;
}

/** When each buffer is used; those of `kept` until the end. */
export function lifetimes(sizes: readonly number[], steps: readonly Step[]): Lifetime[] {
  const lives = sizes.map((bytes): Lifetime => ({ bytes, first: Number.POSITIVE_INFINITY, last: -1 }));
  for (const [at, { reads, writes }] of steps.entries())
    for (const { buffer } of [...reads, ...writes]) {
      const life = lives[buffer] as Lifetime;
      life.first = Math.min(life.first, at);
      life.last = Math.max(life.last, at);
    }
  return lives;
}

export interface ArenaPlan {
  /** Of each placed buffer, by its number. */
  readonly offsets: ReadonlyMap<number, number>;
  readonly bytes: number;
}

/** First fit, by falling size; `placed` says which buffers the arena holds. */
export function planArena(lives: readonly Lifetime[], placed: (buffer: number) => boolean): ArenaPlan {
  const offsets = new Map<number, number>();
  const done: { readonly life: Lifetime; readonly start: number; readonly end: number }[] = [];
  const wanted = lives.flatMap((life, buffer) => (placed(buffer) && life.last >= 0 ? [{ life, buffer }] : []));
  wanted.sort((a, b) => b.life.bytes - a.life.bytes || a.buffer - b.buffer);
  let bytes = 0;
  for (const { life, buffer } of wanted) {
    const size = Math.ceil((life.bytes + slackBytes) / alignment) * alignment + staggerBytes;
    const busy = done.filter((other) => other.life.first <= life.last && life.first <= other.life.last);
    busy.sort((a, b) => a.start - b.start);
    let start = 0;
    for (const other of busy) {
      if (start + size <= other.start) break;
      start = Math.max(start, other.end);
    }
    offsets.set(buffer, start);
    done.push({ life, start, end: start + size });
    bytes = Math.max(bytes, start + size);
  }
  return { offsets, bytes };
}
