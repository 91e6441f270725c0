// Models that answer while a machine lies: it is found by questions of the network's own before it has answered anybody, named
// rightly, and what people read is what honest machines say.

import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import type { AnswerChecksRecord, StandingRecord } from "../../src/orchestrator/records/checking.ts";
import { expectationsOf } from "../baselines.ts";
import { calmRun, fleetOf } from "../draw.ts";
import { NetworkRun, type RunOptions } from "../network-run.ts";
import { runSeed } from "../run.ts";
import { speech } from "../scenarios.ts";
import type { Behaviour } from "./byzantine.ts";

const questions = 6;

/** Seven machines; the speaking network takes at least two of them. */
async function world(behaviour: Behaviour | undefined, hosts: readonly string[], options: RunOptions = {}) {
  const calm = calmRun(speech, fleetOf(7, 2), { checkpointEvery: 4, replicas: 1 });
  const sessions = calm.sessions.map((wish) => ({ ...wish, questions, audit: "on" as const }));
  const odd = new Map(behaviour ? hosts.map((host) => [host, behaviour]) : []);
  const settings = { ...calm, sessions, vnodesPerPNode: 4, behaviours: odd, patienceMs: 300_000 };
  const checks: AnswerChecksRecord[] = [];
  const run = new NetworkRun(1, settings, await expectationsOf(settings), options);
  run.onWrite("checks/", (record: AnswerChecksRecord) => void checks.push(record));
  const { violations } = await run.finish();
  const standings = run.records.under<StandingRecord>("standing/");
  const found = violations.map(({ kind, message }) => `${kind}: ${message}`);
  return { standings, found, checks };
}

describe("a model whose answers are checked", () => {
  it("says what an unchecked one says, and counts what was repeated", async () => {
    const { found, standings, checks } = await world(undefined, []);
    assert.deepEqual(found, []);
    assert.deepEqual(
      standings.flatMap(({ faults }) => faults),
      [],
    );
    const last = checks.at(-1);
    assert.ok((last?.right ?? 0) > 0 && (last?.canaries ?? 0) > 0, JSON.stringify(last));
    assert.equal(last?.wrong, 0);
  });
});

describe("a machine that lies where a model answers", () => {
  const cases: readonly [Behaviour, string, string, string | undefined][] = [
    ["misanswers", "p2", "lie", "quarantined"],
    ["otherModel", "p1", "lie", "quarantined"],
    ["otherModel", "p2", "lie", "quarantined"],
    ["twoFaced", "p1", "answer", "quarantined"],
    ["roundsAnswers", "p1", "class", undefined],
    ["misjudges", "p6", "lie", "quarantined"],
  ];
  for (const [behaviour, host, kind, barred] of cases)
    it(`${behaviour} at ${host}: it is found, nobody else is blamed, and people read what is right`, async () => {
      const { found, standings } = await world(behaviour, [host]);
      assert.deepEqual(found, []);
      for (const { pnode, faults, barred: bar } of standings) {
        assert.equal(faults[0]?.kind, (pnode as string) === host ? kind : undefined, pnode);
        if ((pnode as string) !== host) continue;
        assert.equal(bar?.kind, barred);
        assert.match(faults[0]?.command ?? "", /^dcnr audit answer [0-9a-f]{12}$/);
      }
      assert.ok(standings.some(({ pnode }) => (pnode as string) === host));
    });
});

describe("a machine that sends wrong rows and at once the right ones", () => {
  it("is at odds with whoever it sends them to, and nobody else is blamed for what follows", async () => {
    const { found, standings } = await world("resendsRows", ["p1"]);
    assert.deepEqual(found, []);
    const blamed = standings.flatMap(({ pnode, faults }) =>
      faults.map((fault) => ({ pnode: pnode as string, ...fault })),
    );
    assert.ok(blamed.some(({ pnode, kind }) => pnode === "p1" && kind === "seam"));
    for (const { pnode, kind, with: other } of blamed) {
      assert.equal(kind, "seam", pnode);
      assert.ok(pnode === "p1" || other === "p1", `${pnode} is at odds with ${other}`);
    }
    for (const { pnode, barred } of standings) assert.ok(barred === undefined || (pnode as string) === "p1", pnode);
  });
});

describe("worlds in which a machine lies where a model answers, with and without other faults", () => {
  /** A guess that was right is said otherwise beside rows that are no guesses. */
  const guessed = 7224;
  /** A liar is alone with an orchestrator for a moment, all others being lost. */
  const alone = [7025, 7184];
  /** Clocks of two orchestrators are a quarter of an hour apart, and who is asked by one to repeat an answer reads the model at the other. */
  const apart = 7067;
  for (const seed of [...Array.from({ length: 12 }, (_, index) => index + 1), guessed, ...alone, apart])
    it(`seed ${seed} holds`, async () => {
      const { violations } = await runSeed(seed, { answers: true });
      assert.deepEqual(
        violations.map(({ kind, message }) => `${kind}: ${message}`),
        [],
      );
    });
});
