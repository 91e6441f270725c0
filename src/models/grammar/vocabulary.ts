// A model's vocabulary in the order of its bytes: tokens that begin alike follow each other, so that what holds for their
// beginning is asked once.

import { bytesOfToken, type TokenTable } from "../../data/bpe/token-table.ts";

export interface OrderedVocabulary {
  readonly table: TokenTable;
  /** Ids of tokens that write something, ordered by their bytes. */
  readonly order: Uint32Array;
  /** With how many bytes of the one before it each of them begins. */
  readonly shared: Uint16Array;
}

/** Longer tokens are left out: nobody needs them to write JSON. */
const tokenBytesMax = 1_024;

export function orderVocabulary(table: TokenTable, size: number): OrderedVocabulary {
  const specials = new Set(table.specials);
  const ids: number[] = [];
  for (let id = 0; id < Math.min(size, table.ends.length); id++) {
    const { length } = bytesOfToken(table, id);
    if (length > 0 && length <= tokenBytesMax && !specials.has(id)) ids.push(id);
  }
  ids.sort((a, b) => compare(bytesOfToken(table, a), bytesOfToken(table, b)) || a - b);
  const order = Uint32Array.from(ids);
  const shared = new Uint16Array(order.length);
  for (let i = 1; i < order.length; i++)
    shared[i] = sharedBytes(bytesOfToken(table, order[i - 1] as number), bytesOfToken(table, order[i] as number));
  return { table, order, shared };
}

/** Bytes that are tokens by themselves: what consists of them can always be written. */
export function writableBytes({ table, order }: OrderedVocabulary): ReadonlySet<number> {
  const bytes = new Set<number>();
  for (const id of order) {
    const spelling = bytesOfToken(table, id);
    if (spelling.length === 1) bytes.add(spelling[0] as number);
  }
  return bytes;
}

/** The longest token with which the bytes begin. */
export function longestToken(
  { table, order }: OrderedVocabulary,
  bytes: Uint8Array,
): { readonly token: number; readonly bytes: number } | undefined {
  // What begins them stands before them in the order: the nearest first.
  for (let at = lastBefore(table, order, bytes, order.length); at >= 0; ) {
    const token = order[at] as number;
    const spelling = bytesOfToken(table, token);
    const common = sharedBytes(spelling, bytes);
    if (common === spelling.length) return { token, bytes: common };
    if (common === 0) return undefined;
    // Everything between it and its common beginning has as much in common, or less.
    at = lastBefore(table, order, bytes.subarray(0, common), at);
  }
  return undefined;
}

/** The last token before `end` that is at most these bytes. */
function lastBefore(table: TokenTable, order: Uint32Array, bytes: Uint8Array, end: number): number {
  let [low, high] = [0, end];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (compare(bytesOfToken(table, order[middle] as number), bytes) <= 0) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

function sharedBytes(a: Uint8Array, b: Uint8Array): number {
  const most = Math.min(a.length, b.length);
  for (let i = 0; i < most; i++) if (a[i] !== b[i]) return i;
  return most;
}

function compare(a: Uint8Array, b: Uint8Array): number {
  const at = sharedBytes(a, b);
  return at < a.length && at < b.length ? (a[at] as number) - (b[at] as number) : a.length - b.length;
}
