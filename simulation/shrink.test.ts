import assert from "node:assert/strict";
import { test } from "node:test";
import { runSeed } from "./run.ts";
import { type Shrunk, shrink, tell } from "./shrink.ts";

test("a failing seed is shortened to a few of its faults, with which it fails alike", async () => {
  const mutant = "epoch-stands-still";
  const seeds = [1, 2, 3, 4, 5, 6, 7, 8];
  let shrunk: Shrunk | undefined;
  for (const seed of seeds) shrunk ??= await shrink(seed, { mutant, runsMax: 15 });
  assert.ok(shrunk, "one of a few seeds fails");
  const { seed, plan, drawn, report } = shrunk;
  assert.ok(plan.timed.length < drawn, `${plan.timed.length} of ${drawn} faults are left`);
  assert.deepEqual((await runSeed(seed, { mutant, plan })).violations, report.violations);
  const [first, ...story] = tell(shrunk);
  assert.match(first as string, new RegExp(`seed ${seed} shortened: ${plan.timed.length} of its ${drawn} faults`));
  assert.match(story.at(-1) as string, /ends in fence/);
});

test("a seed that holds has no story", async () => {
  assert.equal(await shrink(1, { runsMax: 3 }), undefined);
});
