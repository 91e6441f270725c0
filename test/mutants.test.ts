// A checker that catches nothing is worth nothing: each deliberate fault must show within a bounded number of seeds.

import assert from "node:assert/strict";
import { availableParallelism } from "node:os";
import { after, describe, test } from "node:test";
import { hunt, readShown } from "../simulation/mutants/shown.ts";
import { mutants } from "../simulation/mutants.ts";
import { SeedPool } from "../simulation/pool.ts";
import type { VNodeId } from "../src/core/ids.ts";
import type { SessionRecord } from "../src/orchestrator/records/sessions.ts";
import type { VNodeRecord } from "../src/orchestrator/records/vnodes.ts";
import { recoveryLine } from "../src/orchestrator/sessions/line.ts";

const workers = Math.max(1, availableParallelism());
/** A mutant's worlds run one after another, so that none is begun in vain: two mutants at a time. */
const free = Array.from({ length: workers }, () => new SeedPool(1));
const pools = [...free];
after(() => Promise.all(pools.map((pool) => pool.close())));
const shown = readShown();

describe("the simulator notices", { concurrency: workers }, () => {
  for (const [name, { fault, shows, seedsMax = 100 }] of Object.entries(mutants))
    test(`when ${fault}`, async (context) => {
      const pool = free.pop() as SeedPool;
      const report = await hunt(pool, name, shown).finally(() => free.push(pool));
      const [failure] = report.failures;
      assert.ok(failure, `${seedsMax} seeds held although ${fault}`);
      const { seed, violations } = failure;
      context.diagnostic(`seed ${seed} after ${report.seeds}; ${violations[0]?.kind}: ${violations[0]?.message}`);
      assert.ok(
        violations.some(({ kind }) => shows.includes(kind)),
        `seed ${seed} shows ${violations[0]?.kind}, expected ${shows.join(" or ")}`,
      );
    });
});

test("there are at least 35 of them", () => assert.ok(Object.keys(mutants).length >= 35));

test("the line is not the minimum of the newest durable steps where a VNode misses that step", () => {
  const record = (...steps: number[]) =>
    ({ durable: Object.fromEntries(steps.map((step) => [step, {}])) }) as unknown as VNodeRecord;
  const session = { vnodes: ["a", "b"], line: 0, policy: {} } as unknown as SessionRecord;
  const records = new Map([
    ["a" as VNodeId, record(2, 4)],
    ["b" as VNodeId, record(2, 6)],
  ]);
  assert.equal(recoveryLine(session, records), 2);
});
