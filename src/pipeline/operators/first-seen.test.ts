import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { randomKey, randomUint32 } from "../../core/numbers/random.ts";
import { FirstSeen } from "./first-seen.ts";

describe("a table of keys that were seen", () => {
  it("answers as a plain map would, pass after pass", () => {
    const table = new FirstSeen(500);
    for (let pass = 0; pass < 5; pass++) {
      table.clear();
      const seen = new Map<string, number[]>();
      const key = randomKey("seen", pass);
      for (let record = 0; record < 500 - pass * 70; record++) {
        const [a, b] = [randomUint32(key, 2 * record) % 40, (randomUint32(key, 2 * record + 1) % 5) * 2 ** 40];
        const known = seen.get(`${a} ${b}`) ?? [];
        assert.deepEqual([...table.with(a, b)], known, `pass ${pass}, record ${record}`);
        table.add(a, b, record);
        seen.set(`${a} ${b}`, [...known, record]);
      }
    }
  });
});
