import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { randomKey, randomUint32 } from "../core/numbers/random.ts";
import { lastBy, Profile } from "./profile.ts";

describe("what is free over time", () => {
  it("is at every moment what counting by hand gives, in any order of releases and promises", () => {
    for (let seed = 0; seed < 200; seed++) {
      const key = randomKey("profile", seed);
      let draws = 0;
      const draw = (below: number) => randomUint32(key, draws++) % below;
      const start = { memoryBytes: draw(100), gpus: draw(4) };
      const profile = new Profile(start);
      const changes: { fromMs: number; toMs: number; memoryBytes: number; gpus: number }[] = [];
      const free = (atMs: number) => {
        const sum = { ...start };
        for (const { fromMs, toMs, memoryBytes, gpus } of changes)
          if (fromMs <= atMs && atMs < toMs) {
            sum.memoryBytes += memoryBytes;
            sum.gpus += gpus;
          }
        return sum;
      };
      for (let change = 0; change < 12; change++) {
        const [fromMs, amount] = [draw(30), { memoryBytes: draw(50), gpus: draw(3) }];
        if (draw(2) === 0) {
          profile.release(fromMs, amount);
          changes.push({ fromMs, toMs: Number.POSITIVE_INFINITY, ...amount });
        } else {
          const toMs = fromMs + 1 + draw(10);
          profile.hold(fromMs, toMs, amount);
          changes.push({ fromMs, toMs, memoryBytes: -amount.memoryBytes, gpus: -amount.gpus });
        }
      }
      const copy = profile.copy();
      profile.hold(0, 100, { memoryBytes: 1, gpus: 1 });
      for (let fromMs = -1; fromMs < 45; fromMs++) {
        assert.deepEqual(copy.at(fromMs), free(fromMs), `seed ${seed}, at ${fromMs}`);
        const toMs = fromMs + 1 + draw(12);
        const moments = Array.from({ length: toMs - fromMs }, (_, index) => free(fromMs + index));
        assert.deepEqual(
          copy.least(fromMs, toMs),
          {
            memoryBytes: Math.min(...moments.map(({ memoryBytes }) => memoryBytes)),
            gpus: Math.min(...moments.map(({ gpus }) => gpus)),
          },
          `seed ${seed}, from ${fromMs} to ${toMs}`,
        );
      }
    }
  });

  it("finds the last time that is not after another", () => {
    const times = [1, 3, 3, 7];
    assert.deepEqual(
      [0, 1, 2, 3, 6, 7, 9].map((atMs) => lastBy(times, atMs)),
      [-1, 0, 0, 2, 2, 3, 3],
    );
    assert.equal(lastBy([], 5), -1);
  });
});
