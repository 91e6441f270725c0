// SentencePiece's own normalising, as its exports carry it ("Precompiled"): a table from characters to texts, packed as a trie of
// 32-bit units and a heap of texts that end in zero. It is looked into as tokenizers does it, its oddities included.

import { bytesOfBase64 } from "../../core/bytes.ts";
import { fail } from "../../core/errors.ts";

/** The largest in use (NFKC with all its rules) has 250 KB. */
const mapBytesMax = 8 << 20;

/** Longer groups are looked up character by character. */
const groupBytesMax = 6;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

export function readCharacterMap(text: string): (text: string) => string {
  const bytes = bytesOfBase64(text);
  if (bytes.byteLength === 0) return (same) => same;
  const damaged = (): never => fail("invalid_argument", "the tokenizer's precompiled_charsmap is damaged");
  if (bytes.byteLength < 4 || bytes.byteLength > mapBytesMax) damaged();
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const trieBytes = view.getUint32(0, true);
  if (trieBytes % 4 !== 0 || trieBytes > bytes.byteLength - 4) damaged();
  const units = Uint32Array.from({ length: trieBytes / 4 }, (_, i) => view.getUint32(4 + 4 * i, true));
  const heap = bytes.subarray(4 + trieBytes);

  /** Where the text of the shortest beginning of `key` that the trie knows lies in the heap. */
  function find(key: Uint8Array): number | undefined {
    let node = offsetOf(units[0] ?? damaged());
    for (const byte of key) {
      if (byte === 0) return undefined;
      node ^= byte;
      const unit = units[node];
      if (unit === undefined || (unit & 0x800000ff) >>> 0 !== byte) return undefined;
      node ^= offsetOf(unit);
      if (((unit >>> 8) & 1) === 1) return (units[node] ?? damaged()) & 0x7fffffff;
    }
    return undefined;
  }

  const known = new Map<string, string | undefined>();
  function textFor(key: string): string | undefined {
    if (known.has(key)) return known.get(key);
    const at = find(encoder.encode(key));
    const end = at === undefined ? -1 : heap.indexOf(0, at);
    if (at !== undefined && (at >= heap.length || end < 0)) damaged();
    const found = at === undefined ? undefined : decoder.decode(heap.subarray(at, end));
    if (known.size > 50_000) known.clear();
    known.set(key, found);
    return found;
  }

  // Without a language, as Unicode cuts them.
  const groups = new Intl.Segmenter("und", { granularity: "grapheme" });
  return (whole) => {
    let result = "";
    for (const { segment } of groups.segment(whole)) {
      const isShort = encoder.encode(segment).byteLength < groupBytesMax;
      const together = isShort ? textFor(segment) : undefined;
      if (together !== undefined) result += together;
      else for (const character of segment) result += textFor(character) ?? character;
    }
    return result;
  };
}

/** A unit says how far its children are, in units or, with a bit for it, in 256 units. */
function offsetOf(unit: number): number {
  return ((unit >>> 10) << ((unit & 512) >>> 6)) >>> 0;
}
