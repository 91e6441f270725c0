import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { test } from "node:test";
import { simulateSeeds } from "../simulation/pool.ts";
import { describe } from "../simulation/report.ts";

const workers = Math.max(1, availableParallelism());

test("300 seeded worlds full of faults train to the undisturbed roots", async (context) => {
  const seeds = Array.from({ length: 300 }, (_, index) => index + 1);
  const report = await simulateSeeds({ seeds, workers, failuresMax: 5 });
  for (const line of describe(report)) context.diagnostic(line);
  assert.deepEqual(
    report.failures.map(({ seed, violations }) => [seed, violations[0]?.message]),
    [],
  );
  assert.equal(report.seeds, 300);
  assert.ok(report.faultCount >= 300 * 20, `${report.faultCount} faults`);
});

test("seeds that failed once hold", async () => {
  const lines = readFileSync(new URL("../simulation/seeds.txt", import.meta.url), "utf8").split("\n");
  const seeds = lines.flatMap((line) => (/^\d/.test(line) ? [Number.parseInt(line, 10)] : []));
  const report = await simulateSeeds({ seeds, workers });
  assert.deepEqual(
    report.failures.map(({ seed, violations }) => [seed, violations[0]?.message]),
    [],
  );
});
