import { strict as assert } from "node:assert";
import { test } from "node:test";
import type { OpenProcess } from "../src/vnode/process.ts";
import {
  drawFrom,
  elasticRounds,
  type Faults,
  lanedPlan,
  quiet,
  roundSchedule,
  SymbolicNetwork,
} from "../src/vnode/symbolic-network.testing.ts";
import * as mutants from "./mutants/rounds.ts";

const harsh: Faults = { lost: 2, repeated: 5, crashes: 2, zombies: false };

function run(seed: number, order: number, faults: Faults, open?: OpenProcess): Map<string, string> {
  const schedule = { ...roundSchedule(seed), elastic: "on" } as const;
  const { plan, lanes } = lanedPlan(seed, schedule.sync);
  const rounds = elasticRounds(seed, schedule, lanes);
  const network = new SymbolicNetwork(plan, schedule, drawFrom(order), faults, open, rounds);
  const hashes = network.run();
  assert.deepEqual(network.evidence, []);
  return hashes;
}

/** The first seed at which it shows. */
function noticedAt(open: OpenProcess): number | undefined {
  for (let seed = 0; seed < 40; seed++) {
    const expected = run(seed, seed, quiet);
    try {
      const hashes = run(seed, seed + 3, harsh, open);
      for (const [key, hash] of expected) assert.equal(hashes.get(key), hash, key);
    } catch {
      return seed;
    }
  }
  return undefined;
}

for (const [name, open] of Object.entries(mutants) as [string, OpenProcess][])
  test(`a process that breaks a rule of rounds is noticed: ${name}`, (context) => {
    const seed = noticedAt(open);
    assert.ok(seed !== undefined);
    context.diagnostic(`seed ${seed}`);
  });

test("processes that break no rule of rounds are not taken for such", () => {
  for (let seed = 0; seed < 10; seed++) {
    const expected = run(seed, seed, quiet);
    const hashes = run(seed, seed + 3, harsh);
    for (const [key, hash] of expected) assert.equal(hashes.get(key), hash, `seed ${seed}: ${key}`);
  }
});
