// Worlds drawn by seeds. Few here, so that `npm test` stays short: `dcnr simulate --seeds 300` and more are for whoever changes the
// protocol or what worlds draw.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { test } from "node:test";
import { simulateSeeds } from "../simulation/pool.ts";
import { describe } from "../simulation/report.ts";

const workers = Math.max(1, availableParallelism());
const drawn = 200;

function failedOnce(): number[] {
  const lines = readFileSync(new URL("../simulation/seeds.txt", import.meta.url), "utf8").split("\n");
  return lines.flatMap((line) => (/^\d/.test(line) ? [Number.parseInt(line, 10)] : []));
}

test(`${drawn} seeded worlds full of faults, and those that failed once, train to the undisturbed roots`, async (context) => {
  const first = Array.from({ length: drawn }, (_, index) => index + 1);
  // Together, so that each thread finds out once what comes out undisturbed.
  const seeds = [...new Set([...first, ...failedOnce()])];
  assert.ok(seeds.length > drawn);
  const report = await simulateSeeds({ seeds, workers, failuresMax: 5 });
  for (const line of describe(report)) context.diagnostic(line);
  assert.deepEqual(
    report.failures.map(({ seed, violations }) => [seed, violations[0]?.message]),
    [],
  );
  assert.equal(report.seeds, seeds.length);
  assert.ok(report.faultCount >= seeds.length * 20, `${report.faultCount} faults`);
});
