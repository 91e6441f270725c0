import assert from "node:assert/strict";
import { it } from "node:test";
import { randomKey, randomUint32 } from "../../core/numbers/random.ts";
import { WordTable } from "./word-table.ts";

it("knows what a plain map knows, and nothing else", () => {
  const key = randomKey("words");
  const table = new WordTable();
  const map = new Map<string, number[]>();
  for (let i = 0; i < 20_000; i++) {
    const drawn = randomUint32(key, i) % 6_000;
    // Words of which many begin alike, some are empty, and some differ in units above a byte only.
    const word =
      drawn === 0 ? "" : `${drawn % 3 === 0 ? " " : "\u{1F600}"}${drawn.toString(5)}\u0161`.slice(0, 1 + (drawn % 9));
    const known = map.get(word);
    const entry = table.find(word);
    if (known === undefined) {
      assert.equal(entry, -1, word);
      const ids = Array.from({ length: drawn % 4 }, (_, at) => drawn * 10 + at);
      map.set(word, ids);
      table.add(word, Int32Array.from(ids));
    } else assert.deepEqual(idsOf(table, entry), known, word);
  }
});

it("forgets all when it is full, and goes on", () => {
  const table = new WordTable();
  for (let i = 0; i < 200_001; i++) table.add(`w${i}`, Int32Array.of(i));
  assert.equal(table.find("w0"), -1);
  assert.deepEqual(idsOf(table, table.find("w200000")), [200_000]);
  table.add("w0", Int32Array.of(7, 8));
  assert.deepEqual(idsOf(table, table.find("w0")), [7, 8]);
});

function idsOf(table: WordTable, entry: number): number[] {
  assert.ok(entry >= 0);
  const start = table.startOf(entry);
  return [...table.pool.subarray(start, start + table.countOf(entry))];
}
