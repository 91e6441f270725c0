// Byte-pair encoding of one word: it is spelt in bytes or characters, then pairs are joined as they were learnt.

import { fail } from "../../core/errors.ts";
import { spellBytes } from "./alphabet.ts";
import { type MergeTable, mergeWord } from "./merges.ts";

export interface BpeParts {
  readonly vocabulary: ReadonlyMap<string, number>;
  readonly merges: MergeTable;
  /** Tokens are spelt in the byte alphabet; otherwise in characters. */
  readonly byteLevel: boolean;
  readonly byteFallback: boolean;
  readonly unknown: number | undefined;
  readonly fuseUnknown: boolean;
  /** A word that is a token as a whole is taken whole, whatever the merges say. */
  readonly ignoreMerges: boolean;
}

const encoder = new TextEncoder();

export function bpeEncoder(parts: BpeParts): (word: string) => Int32Array {
  const { vocabulary, merges, ignoreMerges, byteLevel } = parts;
  const spell = byteLevel ? byteSpeller(parts) : characterSpeller(parts);
  return (word) => {
    if (ignoreMerges) {
      const whole = vocabulary.get(byteLevel ? spellBytes(encoder.encode(word)) : word);
      if (whole !== undefined) return Int32Array.of(whole);
    }
    const ids = spell(word);
    return ids.slice(0, mergeWord(ids, ids.length, merges));
  };
}

function byteSpeller({ vocabulary, unknown }: BpeParts): (word: string) => Int32Array {
  const idOfByte = Array.from({ length: 256 }, (_, byte) => vocabulary.get(spellBytes(Uint8Array.of(byte))) ?? unknown);
  return (word) =>
    Int32Array.from(encoder.encode(word), (byte) => {
      const id = idOfByte[byte];
      return (
        id ?? fail("invalid_argument", `the vocabulary has no token for the byte ${byte} and none for the unknown`)
      );
    });
}

function characterSpeller({ vocabulary, byteFallback, unknown, fuseUnknown }: BpeParts) {
  const idOfByte = Array.from({ length: 256 }, (_, byte) =>
    vocabulary.get(`<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`),
  );
  const spelt = (character: string): readonly number[] | undefined => {
    const id = vocabulary.get(character);
    if (id !== undefined) return [id];
    const bytes = byteFallback ? [...encoder.encode(character)].map((byte) => idOfByte[byte]) : [undefined];
    return bytes.every((one) => one !== undefined) ? bytes : undefined;
  };
  return (word: string): Int32Array => {
    const ids: number[] = [];
    let afterUnknown = false;
    for (const character of word) {
      const some = spelt(character);
      if (some) ids.push(...some);
      else if (unknown === undefined)
        fail("invalid_argument", `the vocabulary has no token for "${character}" and none for the unknown`);
      else if (!(fuseUnknown && afterUnknown)) ids.push(unknown);
      afterUnknown = some === undefined;
    }
    return Int32Array.from(ids);
  };
}
