// Worlds of members: drawn by seed, with the production membership; and the proof that broken ones are noticed.

import assert from "node:assert/strict";
import { test } from "node:test";
import { membershipMutants } from "./mutants.ts";
import { runMembership } from "./world.ts";

const seeds = Number(process.env.DCNR_MEMBERSHIP_SEEDS ?? 15);
const mutantSeeds = 40;

test("whatever happens, members agree on who is there when it is over, and nobody believes a forgery", async () => {
  const faults = new Map<string, number>();
  for (let seed = 1; seed <= seeds; seed++) {
    const report = await runMembership(seed);
    assert.deepEqual(report.violations, [], `seed ${seed}`);
    for (const [fault, count] of Object.entries(report.faults)) faults.set(fault, (faults.get(fault) ?? 0) + count);
  }
  for (const fault of ["pause", "crash", "crash, disk lost", "split", "message lost"])
    assert.ok((faults.get(fault) ?? 0) > 0, `no world had the fault "${fault}"`);
});

for (const [name, mutant] of Object.entries(membershipMutants))
  test(`the simulator notices when ${mutant.fault} (${name})`, async () => {
    for (let seed = 1; seed <= mutantSeeds; seed++) {
      const { violations } = await runMembership(seed, mutant);
      if (violations.some(({ kind }) => mutant.shows.includes(kind))) return;
    }
    assert.fail(`${mutantSeeds} worlds did not show it`);
  });
