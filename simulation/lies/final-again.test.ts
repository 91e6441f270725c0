// A machine that lies gets a VNode just when states of what was final are lost: what it computes again is drawn by nobody, and comes out otherwise. It is
// found all the same, and the session goes on.

import { strict as assert } from "node:assert";
import { test } from "node:test";
import type { StandingRecord } from "../../src/orchestrator/records/checking.ts";
import type { SessionRecord } from "../../src/orchestrator/records/sessions.ts";
import { expectationsOf } from "../baselines.ts";
import { calmRun, fleetOf } from "../draw.ts";
import { noFaults } from "../faults.ts";
import { NetworkRun } from "../network-run.ts";
import { scenarios } from "../scenarios.ts";
import type { Behaviour } from "./byzantine.ts";

const chain = scenarios.find(({ name }) => name === "chain") as (typeof scenarios)[number];

test("what was final and is computed again by a liar is repeated once it came out otherwise twice", async () => {
  const calm = calmRun(chain, fleetOf(12, 1), { checkpointEvery: 2, replicas: 1, assurance: "proven" });
  // Everything up to the line is final at that moment, and its first VNode's owner goes with it: only liars are left that could take its place.
  const lost = { atMs: 20_700, fault: { kind: "line lost", choice: 0, durationMs: 200 } } as const;
  const settings = {
    ...calm,
    computeMs: 600,
    vnodesPerPNode: 1,
    trusted: ["p7", "p8", "p9", "p10", "p11", "p12"],
    behaviours: new Map<string, Behaviour>([
      ["p4", "flips"],
      ["p5", "flips"],
      ["p6", "flips"],
    ]),
    plan: { ...noFaults(1), windowMs: 60_000, timed: [lost] },
    patienceMs: 400_000,
  };
  const run = new NetworkRun(1, settings, await expectationsOf(settings), { readable: true });
  const { violations, trace = "" } = await run.finish();
  assert.deepEqual(violations, []);
  assert.match(trace, /were final, and came out otherwise/, "otherwise the world shows something else by now");
  const [session] = run.records.under<SessionRecord>("session/");
  assert.equal(session?.final, session?.identity.steps);
  const found = run.records.under<StandingRecord>("standing/").filter(({ faults }) => faults.length > 0);
  assert.ok(found.length > 0);
  for (const { pnode } of found) assert.ok(settings.behaviours.has(pnode), `${pnode} is honest`);
});
