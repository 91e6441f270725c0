// Who may answer people: nobody new before an answer of its own was repeated, however it answers and wherever it moves.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { PNodeId, ReplicaId } from "../../core/ids.ts";
import type { Context } from "../context.ts";
import type { ModelRecord } from "../records/sessions.ts";
import { key } from "../records/store-keys.ts";
import { tinyPlan as plan } from "../serving/tiny-plan.testing.ts";
import { standingAtFirst } from "../trust/standing.ts";
import type { CheckOutcome } from "./answer-care.ts";
import { Canaries, type CanaryNeeds, type Try } from "./canaries.ts";
import { ringOf } from "./rings.ts";

const id = "r" as ReplicaId;
const model = { name: "m", replicas: [id], context: 32, vocabulary: 100, tokenizer: "" } as unknown as ModelRecord;

const sentAway = { barred: { kind: "quarantined", reason: "it lied", wallMs: 0 } };

/** A replica of one machine that nobody knows, and a network whose answers are as `answers` says. */
function scene(answer: readonly number[], finish: string, outcome: CheckOutcome = "right") {
  const named = (name: unknown) => JSON.stringify(name);
  const records = new Map<string, unknown>();
  const put = (name: unknown, record: unknown) => records.set(named(name), record);
  const replica = { id, model: "m", status: "running", policy: { audit: true }, identity: {}, vnodes: plan.order };
  put(key.replica(id), replica);
  const settle = (pnode: string | undefined) => {
    for (const vnode of plan.order)
      put(key.vnode(id, vnode), { members: pnode === undefined ? [] : [{ pnode }], epoch: 1 });
  };
  settle("new");
  const running: Promise<unknown>[] = [];
  const mirror = {
    get: (name: unknown) => records.get(named(name)),
    read: async () => model,
    under: () => [replica],
    update: async (name: unknown, change: (record: unknown) => unknown) => put(name, change(records.get(named(name)))),
  };
  const context = {
    mirror,
    world: { chance: { uniform: () => 0.5 }, clock: { wallMs: () => 0 } },
    tasks: { run: (_name: string, task: () => Promise<unknown>) => running.push(task()) },
  } as unknown as Context;
  const compiled = { plan: async () => plan };
  const tried: string[] = [];
  /** Those who could repeat an answer. */
  let others: "here" | "lost" | "gone" = "here";
  const barred = new Set<string>();
  const needs = {
    compiled,
    standings: { of: (pnode: PNodeId) => ({ ...standingAtFirst(pnode), ...(barred.has(pnode) ? sentAway : {}) }) },
    leases: { isHeldHere: () => true },
    auditors: {
      forAnswer: () => (others === "here" ? [{ pnode: "another", trusted: false }] : []),
      mayReturnFor: (_replica: unknown, _ring: unknown, wasHere: (pnode: PNodeId) => boolean) =>
        wasHere("another" as PNodeId),
    },
    lost: { has: () => others === "lost" },
    care: {
      tried: async () => {
        tried.push(outcome);
        return outcome;
      },
    },
  } as unknown as CanaryNeeds;
  const canaries = new Canaries(context, needs);
  const ring = () => ringOf(context, compiled as unknown as CanaryNeeds["compiled"], replica as never);
  /** Where the replica is when it begins to answer. */
  let begins = ring;
  canaries.ask = (async () => ({
    given: { ...{ model: "m", replica: id, asked: {}, answer, finish, request: "" }, ring: await begins() },
    text: "",
  })) as unknown as Try;
  return {
    tried,
    settle,
    bar: (pnode: string) => barred.add(pnode),
    checkNothing: () => put(key.replica(id), { ...replica, policy: {} }),
    theOthersAre: (now: typeof others) => {
      others = now;
    },
    hindrance: () => canaries.hindrance(id),
    /** The next question finds it `at`, though it was somewhere else when it was due. */
    look: async (at?: { readonly pnode: string | undefined }) => {
      const [before] = (await ring())?.owners.values() ?? [];
      begins = async () => {
        if (at === undefined) return ring();
        settle(at.pnode);
        const found = await ring();
        settle(before?.pnode);
        return found;
      };
      canaries.look(1);
      await Promise.all(running.splice(0));
    },
  };
}

test("a newcomer answers people once an answer of its own was repeated", async () => {
  const at = scene([1, 2], "length");
  assert.match((await at.hindrance()) ?? "", /new/);
  await at.look();
  assert.equal(await at.hindrance(), undefined);
  assert.deepEqual(at.tried, ["right"]);
});

test("an answer without a token is repeated like any other, and counts for nothing unless the model ended it", async () => {
  const ended = scene([], "stop");
  await ended.look();
  assert.equal(await ended.hindrance(), undefined);
  assert.deepEqual(ended.tried, ["right"]);
  for (const finish of ["length", ""]) {
    const silent = scene([], finish);
    await silent.look();
    assert.match((await silent.hindrance()) ?? "", /new/, finish);
  }
});

test("whoever was found wrong still may not", async () => {
  const at = scene([1], "length", "wrong");
  await at.look();
  assert.match((await at.hindrance()) ?? "", /new/);
});

test("whoever was sent away answers nobody while its part still has to move, be it checked or not", async () => {
  const at = scene([1], "length");
  await at.look();
  assert.equal(await at.hindrance(), undefined);
  at.bar("new");
  assert.match((await at.hindrance()) ?? "", /sent away/);
  at.checkNothing();
  assert.match((await at.hindrance()) ?? "", /sent away/);
  at.settle("another");
  assert.equal(await at.hindrance(), undefined);
});

test("nobody is asked for people while part of a replica has no machine: whoever gets it may be new", async () => {
  const at = scene([1], "length");
  await at.look();
  at.settle(undefined);
  assert.match((await at.hindrance()) ?? "", /no machine/);
  at.settle("newer");
  assert.match((await at.hindrance()) ?? "", /new/);
});

test("an answer shows something of those who gave it alone", async () => {
  const at = scene([1], "length");
  await at.look({ pnode: undefined });
  assert.deepEqual(at.tried, [], "nobody knows who gave it");
  await at.look({ pnode: "elsewhere" });
  assert.match((await at.hindrance()) ?? "", /new/, "it was another machine's");
  await at.look();
  assert.equal(await at.hindrance(), undefined);
});

for (const [outcome, who] of [
  ["contested", "whom another machine contradicts"],
  ["unchecked", "whose answer nobody who is asked repeats"],
] as const)
  test(`a newcomer ${who} answers nobody until somebody can tell whether it is right, or for half a minute`, async () => {
    const { hindrance, look, tried } = scene([1, 2], "length", outcome);
    for (let times = 1; times <= 30; times++) {
      await look();
      assert.match((await hindrance()) ?? "", /are new/, `after ${times}`);
    }
    await look();
    assert.equal(await hindrance(), undefined);
    assert.equal(tried.length, 31);
  });

test("a newcomer waits no shorter because others before it have waited in vain", async () => {
  const { hindrance, look, settle } = scene([1, 2], "length", "unchecked");
  for (let times = 1; times <= 30; times++) await look();
  settle("newer");
  await look();
  assert.match((await hindrance()) ?? "", /are new/);
});

test("where nobody can repeat anything nobody waits, unless somebody who could was lost a moment ago", async () => {
  const { hindrance, theOthersAre } = scene([1, 2], "length");
  theOthersAre("lost");
  assert.match((await hindrance()) ?? "", /are new/);
  theOthersAre("gone");
  assert.equal(await hindrance(), undefined);
});
