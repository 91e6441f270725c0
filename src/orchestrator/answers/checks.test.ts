import assert from "node:assert/strict";
import { test } from "node:test";
import type { OrchestratorId, PNodeId, ReplicaId } from "../../core/ids.ts";
import type { Context } from "../context.ts";
import type { AnswerChecksRecord, AnswerTask } from "../records/checking.ts";
import { key } from "../records/store-keys.ts";
import { Repetitions } from "./checks.ts";

const replica = "r" as ReplicaId;

/** An orchestrator that asks machines to repeat answers, in a store in which others have left these. */
function asking(left: readonly AnswerTask[]) {
  let checks = { replica, tasks: left } as AnswerChecksRecord;
  const mirror = {
    get: (name: unknown) => (name === key.replica(replica) ? { id: replica } : undefined),
    update: async (_: unknown, change: (current: AnswerChecksRecord) => AnswerChecksRecord) => {
      checks = change(checks);
    },
  };
  const context = { id: "o1", incarnation: "first", mirror } as unknown as Context;
  const repetitions = new Repetitions(context, { alive: (_, incarnation) => incarnation === "lives" });
  return { repetitions, noted: () => checks.tasks.map(({ pnode, orchestrator }) => `${pnode} for ${orchestrator}`) };
}

const task = (pnode: string, incarnation: string) =>
  ({ pnode: pnode as PNodeId, orchestrator: "o2" as OrchestratorId, incarnation, number: 1 }) satisfies AnswerTask;

test("a machine is noted for as long as it repeats an answer, beside those that others have asked who live", async () => {
  const { repetitions, noted } = asking([task("p1", "lives"), task("p2", "died")]);
  await repetitions.during(replica, "p3" as PNodeId, async () => assert.deepEqual(noted(), ["p1 for o2", "p3 for o1"]));
  assert.deepEqual(noted(), ["p1 for o2"]);
});

test("one machine that repeats two answers at once is noted until both are done, and also where it fails", async () => {
  const { repetitions, noted } = asking([]);
  const first = Promise.withResolvers<void>();
  const one = repetitions.during(replica, "p1" as PNodeId, () => first.promise);
  await assert.rejects(repetitions.during(replica, "p1" as PNodeId, () => Promise.reject(new Error("no room"))));
  assert.deepEqual(noted(), ["p1 for o1"]);
  first.resolve();
  await one;
  assert.deepEqual(noted(), []);
});
