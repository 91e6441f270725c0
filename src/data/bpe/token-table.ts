// What each token id is written as, in two flat arrays: small enough to hand from thread to thread, and all that it takes to
// turn ids into text.

import { joinBytes } from "../../core/bytes.ts";
import { fail } from "../../core/errors.ts";

export interface TokenTable {
  /** Of all ids, one after the other. */
  readonly bytes: Uint8Array;
  /** Where the bytes of each id end. */
  readonly ends: Uint32Array;
  /** Ids that are left out when text is decoded for people. */
  readonly specials: readonly number[];
  /** Decoding drops one space at the start. */
  readonly stripLeadingSpace: boolean;
}

export interface DecodeOptions {
  /** Default false. */
  readonly skipSpecial?: boolean;
  /** The ids go on behind a text: a space at their start stays. Default false. */
  readonly continues?: boolean;
}

/** Text as ids arrive; characters that are not complete yet wait for the next id. */
export interface TokenDecoder {
  push(id: number): string;
  end(): string;
}

export function tokenTable(
  spellings: readonly Uint8Array[],
  more: Pick<TokenTable, "specials" | "stripLeadingSpace">,
): TokenTable {
  const ends = new Uint32Array(spellings.length);
  let end = 0;
  for (let id = 0; id < spellings.length; id++) ends[id] = end += (spellings[id] as Uint8Array).length;
  const bytes = new Uint8Array(end);
  for (let id = 0; id < spellings.length; id++) {
    const spelling = spellings[id] as Uint8Array;
    if (spelling.length > 0) bytes.set(spelling, (ends[id] as number) - spelling.length);
  }
  return { bytes, ends, ...more };
}

export function bytesOfToken({ bytes, ends }: TokenTable, id: number): Uint8Array {
  const end = ends[id] ?? fail("out_of_range", `token ${id} is outside the vocabulary of ${ends.length}`);
  return bytes.subarray(id === 0 ? 0 : ends[id - 1], end);
}

/** The bytes that a text gets from each id in turn. */
function speller(
  table: TokenTable,
  { skipSpecial = false, continues = false }: DecodeOptions,
): (id: number) => Uint8Array {
  const skipped = new Set(skipSpecial ? table.specials : []);
  let first = !continues;
  return (id) => {
    const bytes = bytesOfToken(table, id);
    if (skipped.has(id)) return nothing;
    const strip = first && table.stripLeadingSpace && bytes[0] === 0x20;
    first = false;
    return strip ? bytes.subarray(1) : bytes;
  };
}

const nothing = new Uint8Array(0);

export function decodeTokenBytes(table: TokenTable, ids: ArrayLike<number>, options: DecodeOptions = {}): Uint8Array {
  return joinBytes(Array.from(ids, speller(table, options)));
}

export function tokenDecoder(table: TokenTable, options: DecodeOptions = {}): TokenDecoder {
  const text = new TextDecoder("utf-8", { ignoreBOM: true });
  const spell = speller(table, options);
  return { push: (id) => text.decode(spell(id), { stream: true }), end: () => text.decode() };
}
