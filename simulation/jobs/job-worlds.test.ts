import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { jobMutants } from "./job-mutants.ts";
import { runJobWorld } from "./job-world.ts";

describe("job worlds", () => {
  it("end with every job done to the undisturbed root, whoever died on the way, and nothing left claimed", async () => {
    let preemptions = 0;
    for (const seed of [1, 2]) {
      const report = await runJobWorld(seed);
      assert.deepEqual(report.violations, [], `seed ${seed}`);
      assert.ok(report.done >= 20, `seed ${seed}: ${report.done} jobs`);
      preemptions += report.preemptions;
    }
    assert.ok(preemptions > 0, "somebody gave way");
  });

  for (const [name, { fault, shows, store }] of Object.entries(jobMutants))
    it(`notice when ${fault}`, async () => {
      for (let seed = 1; seed <= 8; seed++) {
        const { violations } = await runJobWorld(seed, { store, jobs: 12, patienceMs: 60_000 }).catch(
          (thrown: unknown) => ({
            violations: [`never end: ${String(thrown)}`],
          }),
        );
        if (violations.some((sentence) => shows.test(sentence))) return;
        assert.deepEqual(violations, [], `seed ${seed} of ${name} shows something else`);
      }
      assert.fail(`8 seeds held although ${fault}`);
    });
});
