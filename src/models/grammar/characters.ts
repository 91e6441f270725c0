// Sets of characters, and how JSON writes one of them inside a string: as it is in UTF-8, or escaped where it must be. Only one way to
// write each, so that what fits is told apart by its bytes.

import type { GrammarBuilder } from "./grammar.ts";

/** Code points from the first to the last. */
export type CharacterRange = readonly [low: number, high: number];

export const lastCodePoint = 0x10ffff;
/** Halves of pairs are no characters. */
const halves: CharacterRange = [0xd800, 0xdfff];

/** In order and apart. */
export function joined(ranges: readonly CharacterRange[]): CharacterRange[] {
  const sorted = ranges.filter(([low, high]) => low <= high).toSorted(([a], [b]) => a - b);
  const result: [number, number][] = [];
  for (const [low, high] of sorted) {
    const last = result.at(-1);
    if (last && low <= last[1] + 1) last[1] = Math.max(last[1], high);
    else result.push([low, high]);
  }
  return result;
}

export function without(ranges: readonly CharacterRange[]): CharacterRange[] {
  const result: CharacterRange[] = [];
  let next = 0;
  for (const [low, high] of joined(ranges)) {
    if (next < low) result.push([next, low - 1]);
    next = high + 1;
  }
  if (next <= lastCodePoint) result.push([next, lastCodePoint]);
  return result;
}

const shortEscapes = new Map([
  [0x08, "b"],
  [0x09, "t"],
  [0x0a, "n"],
  [0x0c, "f"],
  [0x0d, "r"],
  [0x22, '"'],
  [0x5c, "\\"],
]);

/** One character of the set, inside a string. */
export function addCharacter(
  builder: GrammarBuilder,
  from: number,
  ranges: readonly CharacterRange[],
  to: number,
): void {
  for (const [low, high] of joined(ranges)) {
    for (let code = low; code <= Math.min(high, 0x1f); code++) builder.text(from, escaped(code), to);
    for (const code of [0x22, 0x5c]) if (low <= code && code <= high) builder.text(from, escaped(code), to);
    for (const [first, last] of [
      [0x20, 0x21],
      [0x23, 0x5b],
      [0x5d, 0x7f],
    ] as const)
      if (Math.max(low, first) <= Math.min(high, last))
        builder.range(from, Math.max(low, first), Math.min(high, last), to);
    for (const [first, last] of [
      [0x80, 0x7ff],
      [0x800, halves[0] - 1],
      [halves[1] + 1, 0xffff],
      [0x10000, lastCodePoint],
    ] as const)
      if (Math.max(low, first) <= Math.min(high, last))
        addBytes(builder, from, utf8(Math.max(low, first)), utf8(Math.min(high, last)), to);
  }
}

function escaped(code: number): string {
  return `\\${shortEscapes.get(code) ?? `u${code.toString(16).padStart(4, "0")}`}`;
}

function utf8(code: number): Uint8Array {
  return new TextEncoder().encode(String.fromCodePoint(code));
}

/** Sequences of as many bytes, from one to the other, in their order. */
function addBytes(builder: GrammarBuilder, from: number, low: Uint8Array, high: Uint8Array, to: number): void {
  const [first = 0, last = 0] = [low[0], high[0]];
  if (low.length === 1) {
    builder.range(from, first, last, to);
    return;
  }
  const [lowest, highest] = [low.slice(1).fill(0x80), low.slice(1).fill(0xbf)];
  if (first === last) {
    addBytes(builder, builder.range(from, first, first), low.slice(1), high.slice(1), to);
    return;
  }
  addBytes(builder, builder.range(from, first, first), low.slice(1), highest, to);
  if (first + 1 < last) addBytes(builder, builder.range(from, first + 1, last - 1), lowest, highest, to);
  addBytes(builder, builder.range(from, last, last), lowest, high.slice(1), to);
}
