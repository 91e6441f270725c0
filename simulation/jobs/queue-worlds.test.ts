import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { kindOfSeed, queueMutants, queueWorld } from "./queue-worlds.ts";

describe("queue worlds", () => {
  it("of three hundred jobs each hold what was promised: room, quotas, whole gangs, nobody starves", () => {
    for (let seed = 1; seed <= 6; seed++) {
      const report = queueWorld(seed);
      assert.deepEqual(report.violations, [], `seed ${seed} (${kindOfSeed(seed)})`);
      assert.ok(report.waitsMs.size >= 300, `seed ${seed}: all of them started`);
      assert.ok(report.use > 0.5, `seed ${seed}: the fleet was used to ${report.use}`);
    }
  });

  for (const [name, { fault, kind, shows, parts }] of Object.entries(queueMutants))
    it(`notice when ${fault}`, () => {
      for (let seed = 1; seed <= 6; seed++) {
        const found = queueWorld(seed, kind, parts).violations.find((sentence) => shows.test(sentence));
        if (found) return;
      }
      assert.fail(`6 seeds held although ${fault} (${name})`);
    });
});
