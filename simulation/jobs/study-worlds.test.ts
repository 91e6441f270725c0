import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { SessionRecord } from "../../src/orchestrator/records/sessions.ts";
import type { TrialRecord } from "../../src/orchestrator/records/studies.ts";
import { rewriting } from "../mutants/mutant.ts";
import { runStudyWorld, type StudyWorldOptions, usualStudy } from "./study-world.ts";

const population = { ...usualStudy, schedule: "population", trials: 4, steps: 24, every: 8 };

describe("study worlds", () => {
  for (const [name, tune, seeds] of [
    ["27 trials by Hyperband", usualStudy, [2]],
    ["a population that copies states", population, [1]],
  ] as const)
    it(`come to the same table and winner of ${name}, whoever died on the way`, async () => {
      const calm = await runStudyWorld(1, { disturbed: false, tune });
      assert.equal(calm.status, "done");
      assert.deepEqual(calm.violations, []);
      for (const seed of seeds) {
        const stormy = await runStudyWorld(seed, { disturbed: true, tune });
        assert.ok(stormy.kills >= 3, `seed ${seed}: ${stormy.kills} kills`);
        assert.deepEqual(stormy.table, calm.table, `seed ${seed}`);
        assert.deepEqual(stormy.result, calm.result);
        assert.deepEqual(stormy.violations, []);
      }
    });

  const mutants: Readonly<Record<string, NonNullable<StudyWorldOptions["store"]>>> = {
    "trials are not held back where they are to be looked at": (view) =>
      rewriting(view, "session", ({ policy: { restAfter: _, ...policy }, ...session }: SessionRecord) => ({
        ...session,
        policy,
      })),
    "results are written down without the step they belong to": (view) =>
      rewriting(view, "trial", (trial: TrialRecord) => ({
        ...trial,
        values: Object.fromEntries(Object.values(trial.values).map((value, index) => [String(4 * (index + 1)), value])),
      })),
  };
  for (const [fault, store] of Object.entries(mutants))
    it(`notice when ${fault}`, async () => {
      const tune = { ...usualStudy, trials: 9, steps: 12, every: 4 };
      const calm = await runStudyWorld(1, { disturbed: false, tune });
      const broken = await runStudyWorld(1, { disturbed: false, tune, store, patienceMs: 120_000 });
      assert.notDeepEqual(broken.table, calm.table);
    });
});
