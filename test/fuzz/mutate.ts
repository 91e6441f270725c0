// Spoils bytes and texts as an enemy would who has a good sample: most of it stays right, so that what is wrong is found
// late. Everything is drawn from a seed.

import type { SeededChance } from "../../simulation/world/chance.ts";

/** Numbers at which sizes, signs and conversions break. */
export const nastyNumbers: readonly number[] = [
  0,
  1,
  -1,
  2,
  7,
  255,
  256,
  65_535,
  65_536,
  2 ** 31 - 1,
  2 ** 31,
  2 ** 32 - 1,
  2 ** 32,
  2 ** 53 - 1,
  2 ** 53,
  1e308,
  -1e308,
  0.5,
  1e-300,
];

const nastyTexts: readonly string[] = [
  "",
  " ",
  "__proto__",
  "constructor",
  "toString",
  "null",
  "NaN",
  "-1",
  "9007199254740993",
  "1e999",
  "../../etc/passwd",
  "a/b",
  "\u0000",
  "\ud800",
  "\u202e",
  "ünï",
  "*a",
  "&a [*a]",
  "{}",
  "[]",
  "[[[[[[[[[[[[[[[[",
  "(?:a*){9}b",
  "{% for x in range(9) %}",
  "x".repeat(300),
];

type Change = (bytes: Uint8Array, chance: SeededChance, other: Uint8Array) => Uint8Array;

const changes: readonly Change[] = [
  (bytes, chance) => {
    // Not slice(): on a Buffer that is a view, and the sample itself would be spoiled for all that follow.
    const copy = new Uint8Array(bytes);
    for (let count = chance.whole(1, 4); count > 0 && copy.length > 0; count--) {
      const at = chance.whole(0, copy.length - 1);
      copy[at] = (copy[at] as number) ^ (1 << chance.whole(0, 7));
    }
    return copy;
  },
  (bytes, chance) => bytes.subarray(0, chance.whole(0, bytes.length)),
  (bytes, chance) => {
    const [from, to] = span(bytes, chance);
    return joined(bytes.subarray(0, from), bytes.subarray(to));
  },
  (bytes, chance) => {
    const [from, to] = span(bytes, chance);
    const at = chance.whole(0, bytes.length);
    return joined(bytes.subarray(0, at), bytes.subarray(from, to), bytes.subarray(at));
  },
  (bytes, chance) => replaced(bytes, chance, Buffer.from(chance.pick(nastyTexts))),
  (bytes, chance) => replaced(bytes, chance, Buffer.from(String(chance.pick(nastyNumbers)))),
  (bytes, chance) => replaced(bytes, chance, numberBytes(chance)),
  (bytes, chance, other) => {
    const [from, to] = span(other, chance);
    return replaced(bytes, chance, other.subarray(from, to));
  },
  (bytes, chance) => replacedNumber(bytes, chance),
  (bytes, chance) => replacedValue(bytes, chance),
];

/** One to three changes of the sample; now and then none, so that what is right is also tried. */
export function spoiled(sample: Uint8Array, chance: SeededChance, other: Uint8Array): Uint8Array {
  let bytes = sample;
  for (let count = chance.whole(0, 3); count > 0; count--) bytes = chance.pick(changes)(bytes, chance, other);
  return bytes;
}

export function nastyText(chance: SeededChance): string {
  return chance.pick(nastyTexts);
}

function span(bytes: Uint8Array, chance: SeededChance): [number, number] {
  const from = chance.whole(0, bytes.length);
  return [from, Math.min(bytes.length, from + Math.floor(chance.skewed(1, 400)))];
}

function replaced(bytes: Uint8Array, chance: SeededChance, by: Uint8Array): Uint8Array {
  const at = chance.whole(0, bytes.length);
  const until = chance.happens(0.5) ? at : Math.min(bytes.length, at + by.length);
  return joined(bytes.subarray(0, at), by, bytes.subarray(until));
}

/** In a text the places that matter are its numbers: one of them becomes another. */
function replacedNumber(bytes: Uint8Array, chance: SeededChance): Uint8Array {
  const text = Buffer.from(bytes).toString("latin1");
  const found = [...text.slice(0, 1 << 16).matchAll(/-?\d+(\.\d+)?/g)];
  if (found.length === 0) return bytes;
  const one = chance.pick(found);
  const by = String(chance.pick(nastyNumbers));
  return Buffer.from(text.slice(0, one.index) + by + text.slice(one.index + one[0].length), "latin1");
}

/** JSON stays JSON: one value in it becomes another, goes, or comes twice. Other bytes are replaced anywhere. */
function replacedValue(bytes: Uint8Array, chance: SeededChance): Uint8Array {
  const first = bytes[0];
  let root: unknown;
  try {
    root = first === 0x7b || first === 0x5b ? JSON.parse(Buffer.from(bytes).toString("utf8")) : undefined;
  } catch {
    // Spoiled before.
  }
  const places: [Record<string, unknown>, string][] = [];
  const visit = (value: unknown) => {
    if (value === null || typeof value !== "object" || places.length >= placesMax) return;
    for (const name of Object.keys(value)) {
      places.push([value as Record<string, unknown>, name]);
      visit((value as Record<string, unknown>)[name]);
    }
  };
  visit(root);
  if (places.length === 0) return replaced(bytes, chance, Buffer.from(chance.pick(nastyTexts)));
  const [parent, name] = chance.pick(places);
  const [otherParent, otherName] = chance.pick(places);
  // Only what is copied goes elsewhere: nothing may contain itself.
  const copy = structuredClone(otherParent[otherName]);
  const value = chance.pick([
    copy,
    chance.pick(nastyNumbers),
    chance.pick(nastyTexts),
    null,
    true,
    [],
    {},
    [copy, copy],
    { toString: 1 },
  ]);
  const change = chance.whole(0, 3);
  if (change === 0 && !Array.isArray(parent)) delete parent[name];
  else if (change === 1) parent[Array.isArray(parent) ? String(parent.length) : chance.pick(nastyTexts)] = value;
  else parent[name] = value;
  return Buffer.from(JSON.stringify(root));
}

/** Of a large file, the first ones. */
const placesMax = 2_000;

function numberBytes(chance: SeededChance): Uint8Array {
  const view = new DataView(new ArrayBuffer(8));
  view.setBigUint64(0, BigInt.asUintN(64, BigInt(Math.trunc(chance.pick(nastyNumbers.slice(0, 15))))), true);
  return new Uint8Array(view.buffer, 0, chance.pick([1, 2, 4, 8]));
}

function joined(...parts: readonly Uint8Array[]): Uint8Array {
  return Buffer.concat(parts);
}
