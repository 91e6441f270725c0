import { strict as assert } from "node:assert";
import { test } from "node:test";
import { testMemory } from "./memory-test.ts";

const bytes = 4_096;

test("sound memory gives back what was written", async () => {
  assert.deepEqual(await testMemory(bytes, async () => {}), { bytes, errors: 0 });
});

test("every bit that is stuck or flips is found, whichever it is", async () => {
  for (let bit = 0; bit < 32; bit++) {
    const mask = (1 << bit) >>> 0;
    const faults: readonly ((word: number) => number)[] = [
      (word) => (word | mask) >>> 0,
      (word) => (word & ~mask) >>> 0,
      (word) => (word ^ mask) >>> 0,
    ];
    for (const fault of faults) {
      const { errors, first } = await testMemory(bytes, async (block) => {
        block[77] = fault(block[77] as number);
      });
      assert.ok(errors > 0, `bit ${bit}`);
      assert.match(first ?? "", /^block 0, word 77: 0x[0-9a-f]{8} was written, 0x[0-9a-f]{8} read$/);
    }
  }
});

test("a word that shows up at another address is found", async () => {
  const { errors } = await testMemory(bytes, async (block) => {
    block[8] = block[9] as number;
  });
  assert.ok(errors > 0);
});
