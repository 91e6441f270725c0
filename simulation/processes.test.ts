import { strict as assert } from "node:assert";
import { test } from "node:test";
import type { OpenProcess } from "../src/vnode/process.ts";
import {
  drawFrom,
  type Faults,
  lanedPlan,
  randomPlan,
  randomSchedule,
  SymbolicNetwork,
} from "../src/vnode/symbolic-network.testing.ts";
import * as processes from "./mutants/processes.ts";

const calm: Faults = { lost: 0, repeated: 0, crashes: 0, zombies: false };
const harsh: Faults = { lost: 5, repeated: 20, crashes: 6, zombies: false };

function run(seed: number, order: number, faults: Faults, open?: OpenProcess): [string, string][] {
  const plan = seed % 2 === 0 ? randomPlan(drawFrom(seed)) : lanedPlan(seed).plan;
  const network = new SymbolicNetwork(plan, randomSchedule(seed), drawFrom(order), faults, open);
  const hashes = [...network.run()].sort(([a], [b]) => (a < b ? -1 : 1));
  assert.deepEqual(network.evidence, []);
  return hashes;
}

for (const [name, open] of Object.entries(processes) as [string, OpenProcess][])
  test(`a process that breaks a rule is noticed where values are hashes of how they were made: ${name}`, () => {
    const noticed = Array.from({ length: 60 }, (_, seed) => seed).some((seed) => {
      const expected = run(seed, seed, calm);
      try {
        assert.deepEqual(run(seed, seed + 3, harsh, open), expected);
        return false;
      } catch {
        return true;
      }
    });
    assert.ok(noticed);
  });
