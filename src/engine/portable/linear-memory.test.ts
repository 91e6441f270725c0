import { deepStrictEqual, notStrictEqual, strictEqual, throws } from "node:assert/strict";
import { test } from "node:test";
import { randomKey, randomUint32 } from "../../core/numbers/random.ts";
import { Arena, Heap, LinearMemory } from "./linear-memory.ts";

const small = () => new LinearMemory(new WebAssembly.Memory({ initial: 64, maximum: 64, shared: true }));

test("regions never overlap, whoever takes them, and end before the last page", () => {
  const memory = small();
  const other = new LinearMemory(memory.memory);
  const taken = [memory, other, memory, other].map((each) => each.take(100_000));
  deepStrictEqual(
    taken.map((region) => region?.start),
    [1, 3, 5, 7].map((page) => page * 65536),
  );
  strictEqual(memory.take(1 << 30), undefined);
  strictEqual((memory.take(54 * 65536)?.end as number) <= 63 * 65536, true);
  strictEqual(memory.take(1), undefined);
});

test("a heap hands out disjoint places, joins what is freed, and zeroes what it is asked to", () => {
  const memory = small();
  const heap = new Heap(memory, 65536);
  let drawn = 0;
  const random = () => randomUint32(randomKey("heap"), drawn++) / 2 ** 32;
  const live = new Map<number, number>();
  for (let round = 0; round < 2000; round++) {
    const bytes = Math.ceil(random() * 5000);
    if (live.size > 20) {
      const [start] = [...live.keys()].slice(Math.floor(random() * live.size)) as [number];
      heap.free(start);
      live.delete(start);
    }
    const start = heap.allocate(bytes, true) as number;
    for (const [other, size] of live) strictEqual(start + bytes <= other || other + size <= start, true);
    const place = new Uint8Array(memory.buffer, start, bytes);
    strictEqual(
      place.every((byte) => byte === 0),
      true,
    );
    place.fill(round);
    live.set(start, bytes);
  }
  for (const start of live.keys()) heap.free(start);
  throws(() => heap.free([...live.keys()][0] as number), /not freed before/);
  // All of it is one piece again.
  notStrictEqual(heap.allocate(100_000), undefined);
  strictEqual(heap.allocate(1 << 30), undefined);
});

test("an arena grows in place while nobody else takes a region", () => {
  const memory = small();
  const arena = new Arena(memory);
  const start = arena.reserve(1000, "a graph");
  strictEqual(arena.reserve(200_000, "a graph"), start);
  memory.take(1);
  notStrictEqual(arena.reserve(400_000, "a graph"), start);
  throws(() => arena.reserve(1 << 30, 'graph "huge"'), /graph "huge" needs 1073741824 bytes/);
});
