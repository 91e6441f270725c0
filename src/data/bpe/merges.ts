// The heart of BPE: among the neighbouring pairs of a word, the one that was learnt first is joined first, the
// leftmost of equals, until no known pair is left.

import { assert } from "../../core/assert.ts";

/** Pairs of token ids with their rank and the token they make: a hash table in flat arrays. */
export interface MergeTable {
  /** Slot of the pair, or -1. */
  find(left: number, right: number): number;
  readonly ranks: Int32Array;
  readonly results: Int32Array;
}

export interface Merge {
  readonly left: number;
  readonly right: number;
  readonly result: number;
}

/** `merges` in the order in which they were learnt. Of a pair that comes twice the first counts. */
export function mergeTable(merges: readonly Merge[]): MergeTable {
  let size = 16;
  while (size < merges.length * 2) size *= 2;
  const mask = size - 1;
  const lefts = new Int32Array(size).fill(-1);
  const rights = new Int32Array(size);
  const ranks = new Int32Array(size);
  const results = new Int32Array(size);
  const slotOf = (left: number, right: number) => {
    let slot = (Math.imul(left, 0x9e3779b1) ^ Math.imul(right, 0x85ebca6b)) & mask;
    while (lefts[slot] !== -1 && !(lefts[slot] === left && rights[slot] === right)) slot = (slot + 1) & mask;
    return slot;
  };
  merges.forEach(({ left, right, result }, rank) => {
    const slot = slotOf(left, right);
    if (lefts[slot] !== -1) return;
    lefts[slot] = left;
    rights[slot] = right;
    ranks[slot] = rank;
    results[slot] = result;
  });
  return {
    ranks,
    results,
    find(left, right) {
      const slot = slotOf(left, right);
      return lefts[slot] === -1 ? -1 : slot;
    },
  };
}

/** Beyond it looking for the best pair again and again costs more than a heap. */
const scanMax = 48;

/** Joins what can be joined among the first `count` ids, in place; returns how many are left. */
export function mergeWord(ids: Int32Array, count: number, table: MergeTable): number {
  assert(count <= ids.length, "the word fits its buffer");
  return count <= scanMax ? mergeShort(ids, count, table) : mergeLong(ids, count, table);
}

const shortSlots = new Int32Array(scanMax);

function mergeShort(ids: Int32Array, count: number, table: MergeTable): number {
  const { ranks, results } = table;
  const slots = shortSlots;
  for (let i = 0; i + 1 < count; i++) slots[i] = table.find(ids[i] as number, ids[i + 1] as number);
  let length = count;
  for (;;) {
    let best = -1;
    let bestRank = 0x7fffffff;
    for (let i = 0; i + 1 < length; i++) {
      const slot = slots[i] as number;
      if (slot >= 0 && (ranks[slot] as number) < bestRank) {
        bestRank = ranks[slot] as number;
        best = i;
      }
    }
    if (best < 0) return length;
    ids[best] = results[slots[best] as number] as number;
    ids.copyWithin(best + 1, best + 2, length);
    slots.copyWithin(best + 1, best + 2, length - 1);
    length--;
    if (best > 0) slots[best - 1] = table.find(ids[best - 1] as number, ids[best] as number);
    if (best + 1 < length) slots[best] = table.find(ids[best] as number, ids[best + 1] as number);
  }
}

/** Ranks are below 2^20 or so and positions below this, so that both fit one exact number: the heap's order. */
const positionsMax = 2 ** 31;

/** A chain of positions with a heap of candidate pairs; entries that no longer hold are skipped when they come up. */
function mergeLong(ids: Int32Array, count: number, table: MergeTable): number {
  const { ranks, results } = table;
  const next = Int32Array.from({ length: count }, (_, i) => i + 1);
  const previous = Int32Array.from({ length: count }, (_, i) => i - 1);
  const rankAt = new Int32Array(count).fill(-1);
  const heap = openHeap();
  const consider = (at: number) => {
    const right = next[at] as number;
    const slot = right < count ? table.find(ids[at] as number, ids[right] as number) : -1;
    rankAt[at] = slot < 0 ? -1 : (ranks[slot] as number);
    if (slot >= 0) heap.push((ranks[slot] as number) * positionsMax + at);
  };
  for (let i = 0; i < count; i++) consider(i);
  for (let entry = heap.pop(); entry !== undefined; entry = heap.pop()) {
    const at = entry % positionsMax;
    if (rankAt[at] !== Math.floor(entry / positionsMax)) continue;
    const right = next[at] as number;
    ids[at] = results[table.find(ids[at] as number, ids[right] as number)] as number;
    rankAt[right] = -1;
    next[at] = next[right] as number;
    if ((next[at] as number) < count) previous[next[at] as number] = at;
    consider(at);
    if ((previous[at] as number) >= 0) consider(previous[at] as number);
  }
  let length = 0;
  for (let at = 0; at < count; at = next[at] as number) ids[length++] = ids[at] as number;
  return length;
}

/** The smallest number first. */
function openHeap() {
  const items: number[] = [];
  return {
    push(value: number): void {
      let at = items.push(value) - 1;
      while (at > 0) {
        const parent = (at - 1) >> 1;
        if ((items[parent] as number) <= value) break;
        items[at] = items[parent] as number;
        at = parent;
      }
      items[at] = value;
    },
    pop(): number | undefined {
      const top = items[0];
      const last = items.pop();
      if (top === undefined || last === undefined || items.length === 0) return top;
      let at = 0;
      for (;;) {
        let child = at * 2 + 1;
        if (child >= items.length) break;
        if (child + 1 < items.length && (items[child + 1] as number) < (items[child] as number)) child++;
        if ((items[child] as number) >= last) break;
        items[at] = items[child] as number;
        at = child;
      }
      items[at] = last;
      return top;
    },
  };
}
