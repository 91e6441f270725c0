// A checker that catches nothing is worth nothing: each deliberate fault must show within a bounded number of seeds.

import assert from "node:assert/strict";
import { availableParallelism } from "node:os";
import { after, test } from "node:test";
import { mutants } from "../simulation/mutants.ts";
import { SeedPool } from "../simulation/pool.ts";
import type { VNodeId } from "../src/core/ids.ts";
import type { SessionRecord } from "../src/orchestrator/records/sessions.ts";
import type { VNodeRecord } from "../src/orchestrator/records/vnodes.ts";
import { recoveryLine } from "../src/orchestrator/sessions/line.ts";

const pool = new SeedPool(Math.max(1, availableParallelism()));
after(() => pool.close());

for (const [name, { fault, shows, seedsMax = 100 }] of Object.entries(mutants))
  test(`the simulator notices when ${fault}`, async (context) => {
    const seeds = Array.from({ length: seedsMax }, (_, index) => index + 1);
    const report = await pool.run({ seeds, mutant: name, failuresMax: 1 });
    const [failure] = report.failures;
    assert.ok(failure, `${seedsMax} seeds held although ${fault}`);
    context.diagnostic(`${report.seeds} seeds; ${failure.violations[0]?.kind}: ${failure.violations[0]?.message}`);
    assert.ok(
      failure.violations.some(({ kind }) => shows.includes(kind)),
      `seed ${failure.seed} shows ${failure.violations[0]?.kind}, expected ${shows.join(" or ")}`,
    );
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
