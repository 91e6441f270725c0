import assert from "node:assert/strict";
import { test } from "node:test";
import { noFaults } from "./faults.ts";
import { runSeed } from "./run.ts";
import { shrink, tell } from "./shrink.ts";

test("a failing seed is shortened to faults without which it holds", async () => {
  const mutant = "epoch-stands-still";
  let seed = 1;
  while ((await runSeed(seed, { mutant })).violations.length === 0) seed += 1;
  const shrunk = await shrink(seed, { mutant, runsMax: 30 });
  assert.ok(shrunk);
  assert.ok(shrunk.plan.timed.length < shrunk.drawn / 2, `${shrunk.plan.timed.length} of ${shrunk.drawn}`);
  const again = await runSeed(seed, { mutant, plan: shrunk.plan });
  assert.deepEqual(again.violations, shrunk.report.violations);
  const [first, ...story] = tell(shrunk);
  assert.match(first as string, new RegExp(`seed ${seed} shortened: ${shrunk.plan.timed.length} of its`));
  assert.match(story.at(-1) as string, /ends in fence/);
  const calm = { ...noFaults(seed), windowMs: shrunk.plan.windowMs };
  assert.deepEqual((await runSeed(seed, { mutant, plan: calm })).violations, []);
});

test("a seed that holds has no story", async () => {
  assert.equal(await shrink(1, { runsMax: 3 }), undefined);
});
