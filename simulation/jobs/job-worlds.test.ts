import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { jobMutants } from "./job-mutants.ts";
import { runJobWorld } from "./job-world.ts";

describe("job worlds", () => {
  it("of all kinds end with every job done as if nobody had died on the way, and nothing left claimed", async () => {
    let preemptions = 0;
    const kinds = new Set<string>();
    // 4: a trial is asked to give way while it is about to rest; 18: quota is counted by somebody who missed that a job has ended.
    for (const seed of [2, 4, 18]) {
      const report = await runJobWorld(seed);
      assert.deepEqual(report.violations, [], `seed ${seed}`);
      assert.ok(report.done >= 20, `seed ${seed}: ${report.done} jobs`);
      preemptions += report.preemptions;
      for (const kind of Object.keys(report.kinds)) kinds.add(kind);
    }
    assert.ok(preemptions > 0, "somebody gave way");
    assert.deepEqual([...kinds].sort(), ["data", "evaluate", "map", "train", "tune"]);
  });

  /** So few that sound worlds end within a minute: what never ends is waited for no longer. */
  const few = { jobs: 8, patienceMs: 60_000 };

  it("of few jobs end within a minute unless something is broken", async () => {
    assert.deepEqual((await runJobWorld(2, few)).violations, []);
  });

  for (const [name, { fault, shows, store }] of Object.entries(jobMutants))
    it(`notice when ${fault}`, async () => {
      for (let seed = 2; seed <= 9; seed++) {
        const { violations } = await runJobWorld(seed, { store, ...few }).catch((thrown: unknown) => ({
          violations: [`never end: ${String(thrown)}`],
        }));
        if (violations.some((sentence) => shows.test(sentence))) return;
        assert.deepEqual(violations, [], `seed ${seed} of ${name} shows something else`);
      }
      assert.fail(`8 seeds held although ${fault}`);
    });
});
