import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import { fail, hasCode } from "../../core/errors.ts";
import type { PNodeId, SessionId, VNodeId } from "../../core/ids.ts";
import { openMemoryStore } from "../../store/memory.ts";
import type { StateStore } from "../../store/records/state-store.ts";
import { realWorld } from "../../system/world.ts";
import type { Context } from "../context.ts";
import type { IntervalRecord, RepairPlan } from "../records/checking.ts";
import { readSession } from "../records/fresh.ts";
import { Mirror } from "../records/mirror.ts";
import type { SessionRecord } from "../records/sessions.ts";
import { key } from "../records/store-keys.ts";
import type { VNodeRecord } from "../records/vnodes.ts";
import { recoveryLine } from "../sessions/line.ts";
import { finalOf } from "./finality.ts";
import { alarmed, lineBefore, repair, replanned } from "./repair.ts";

const vnodes = ["a", "b"] as VNodeId[];

/** A session whose VNodes have states of these steps. */
function scene(line: number, steps: readonly number[], more: Partial<SessionRecord> = {}) {
  const session = {
    vnodes,
    line,
    lineBefore: line,
    identity: { steps: 1_000 },
    policy: { checkpointEvery: 1 },
    ...more,
  } as unknown as SessionRecord;
  const durable = Object.fromEntries(steps.map((step) => [String(step), { hash: `h${step}` }]));
  const records = new Map(vnodes.map((vnode) => [vnode, { vnode, durable } as unknown as VNodeRecord]));
  return { session, records };
}

it("a session goes back to the newest kept line that all have, and never below what is final", () => {
  const { session, records } = scene(20, [7, 8, 16, 20], { final: 7 });
  assert.equal(lineBefore(session, records, [], 19, new Set()), 16);
  assert.equal(lineBefore(session, records, [], 12, new Set()), 8);
  assert.equal(lineBefore(session, records, [], 3, new Set()), 7);
});

it("a repair that another one was faster than goes to a line that is still there, never forward", () => {
  const plan: RepairPlan = { line: 16, turn: 2, because: "a lie" };
  const back = scene(9, [0, 8, 9], { turn: 3 });
  const interval = { from: 16, to: 17, audits: {} };
  const again = replanned(plan, interval, back.session, back.records, []);
  assert.deepEqual(again, { ...plan, line: 9, turn: 4, final: 0, losses: [] });
  const on = scene(20, [0, 8, 19, 20], { turn: 2, lineBefore: 19 });
  assert.equal(replanned(plan, interval, on.session, on.records, []).line, 8, "16 was collected meanwhile");
});

it("a session remembers how many lied in it, and of whoever only erred that somebody was wrong", () => {
  const convicts = ["p1", "p2"].map((name) => ({ pnode: name as PNodeId, bond: false }));
  const once = alarmed({}, { line: 8, convicts });
  assert.deepEqual(once, { alarm: 8, liars: 2 });
  assert.deepEqual(alarmed(once, { line: 16 }), { alarm: 16, liars: 2 });
  assert.deepEqual(alarmed(once, { line: 16, convicts }), { alarm: 16, liars: 4 });
  assert.deepEqual(alarmed({}, { line: 8, convicts: [] }), { alarm: 8 });
});

/** A stored session at line 4 whose VNodes have recorded step 6 as well; `beforeWrite` hears of each write, and may refuse it. */
async function stored(beforeWrite: (name: string) => Promise<void>) {
  const inner = openMemoryStore();
  const world = realWorld({ logFormat: "none" });
  const plain = new Mirror(inner, world);
  const id = "s" as SessionId;
  const { session, records } = scene(4, [2, 4, 6], { id, turn: 0, status: "running" } as Partial<SessionRecord>);
  await plain.update(key.session(id), () => session);
  for (const record of records.values())
    await plain.update(key.vnode(id, record.vnode), () => ({ ...record, session: id }));
  const hooked: StateStore = {
    get: (name) => inner.get(name),
    list: (prefix, options) => inner.list(prefix, options),
    delete: (name, expected) => inner.delete(name, expected),
    watch: (prefix, listener) => inner.watch(prefix, listener),
    close: () => inner.close(),
    put: async (name, value, expected) => {
      await beforeWrite(name);
      return inner.put(name, value, expected);
    },
  };
  const contextOf = (mirror: Mirror) => ({ mirror, events: { emit: () => {} }, world }) as unknown as Context;
  return { id, context: contextOf(new Mirror(hooked, world)), other: contextOf(plain) };
}

/** As another orchestrator does it: decided on what was read, written if the session's turn and line are still those. */
async function moveLine(context: Context, id: SessionId, seen = readSession(context, id)): Promise<void> {
  const fresh = await seen;
  if (fresh === undefined) return;
  const { session, records } = fresh;
  const line = recoveryLine(session, records);
  if (line <= session.line) return;
  await context.mirror.update(key.session(id), (current) =>
    current?.line === session.line && current.turn === session.turn ? { ...current, line } : undefined,
  );
}

async function assertLineStands(context: Context, id: SessionId): Promise<void> {
  const session = await context.mirror.read(key.session(id));
  for (const vnode of vnodes) {
    const record = await context.mirror.read(key.vnode(id, vnode));
    assert.ok(record?.durable[String(session?.line)], `line ${session?.line} is not durable at ${vnode}`);
  }
}

it("nobody goes forward to what is final while lost states below it are computed again", () => {
  const { session, records } = scene(8, [0, 8], { final: 16 });
  assert.equal(lineBefore(session, records, [], 8, new Set()), 8);
});

it("what would be taken back, or may be, does not become final meanwhile", () => {
  const [liar, other] = ["liar", "other"] as PNodeId[];
  const right = { stated: [], tasks: [], ready: true, accused: [], outcome: { kind: "right", by: "strangers" } };
  const of = (from: number, audits: object, more: object = {}) =>
    ({ from, to: from + 2, turn: 0, owners: { a: liar, b: other }, audits, ...more }) as unknown as IntervalRecord;
  const session = {
    ...{ line: 6, final: 0, turn: 0, vnodes, identity: { steps: 6 } },
    policy: { checkpointEvery: 2, assurance: "sampled" },
  } as unknown as SessionRecord;
  const early = [of(0, { a: right, b: right }), of(2, { b: right })];
  const final = (last: IntervalRecord) => finalOf(session, [...early, last], () => true).final;
  assert.equal(final(of(4, { a: right, b: right })), 6);
  const wrong = { ...right, outcome: { kind: "wrong" }, accused: [{ pnode: liar }] };
  assert.equal(final(of(4, { a: wrong })), 2, "whoever is accused may have lied before, where nobody looked");
  assert.equal(final(of(4, { a: { ...wrong, accused: [{ pnode: liar, verdict: "hardware" }] } })), 4);
  assert.equal(final(of(4, { a: wrong }, { repair: { line: 0, turn: 1, because: "a lie" } })), 0);
});

describe("a session that goes back", () => {
  it("never goes to below what became final after that was planned: it is planned anew", async () => {
    let isFirst = true;
    const { id, context, other } = await stored(async () => {
      if (!isFirst) return;
      isFirst = false;
      await other.mirror.update(key.session(id), (current) => current && { ...current, final: 4 });
    });
    assert.equal(await repair(context, id, { line: 2, turn: 1, because: "a lie", final: 0 }), "overtaken");
    const now = await other.mirror.read(key.session(id));
    assert.deepEqual([now?.line, now?.final, now?.turn], [4, 4, 0]);
  });

  const back = { line: 2, turn: 1, because: "a lie" };
  const writes = 3;

  it("has no line at any moment that is not durable everywhere, whoever moves it on what it read before", async () => {
    for (let at = 0; at < writes; at++) {
      let count = 0;
      let seen: ReturnType<typeof readSession> | undefined;
      const { id, context, other } = await stored(async () => {
        seen ??= readSession(other, id);
        await seen;
        if (count++ === at) await moveLine(other, id, seen);
        await assertLineStands(other, id);
      });
      assert.equal(await repair(context, id, back), "done");
      assert.equal(count >= writes, true, "the session and both VNodes are written");
      await moveLine(other, id);
      await assertLineStands(other, id);
      assert.equal((await other.mirror.read(key.session(id)))?.line, 2, "everything above is void");
    }
  });

  it("may be left half done: what is void counts for nothing until somebody has tidied up", async () => {
    for (let at = 1; at < writes; at++) {
      let count = 0;
      const { id, context, other } = await stored(async () => {
        if (count++ === at) fail("internal", "the orchestrator dies");
      });
      await assert.rejects(repair(context, id, back), (thrown) => hasCode(thrown, "internal"));
      await moveLine(other, id);
      assert.equal((await other.mirror.read(key.session(id)))?.line, 2);
      assert.equal(await repair(other, id, back), "done");
      const record = await other.mirror.read(key.vnode(id, "b" as VNodeId));
      assert.deepEqual(Object.keys(record?.durable ?? {}), ["2"]);
    }
  });

  it("has the best state from before again, whose blob nobody has collected", async () => {
    const { id, context, other } = await stored(async () => {});
    const bestFinal = { step: 2, loss: 0.5 };
    const made = { policy: { checkpointEvery: 1, assurance: "checked" }, final: 2, bestFinal };
    const validated = [{ step: 6, loss: -1000, to: 6 }];
    await other.mirror.update(
      key.session(id),
      (current) =>
        ({ ...current, ...made, line: 6, validated, best: { step: 6, loss: -1000 } }) as unknown as SessionRecord,
    );
    assert.equal(await repair(context, id, { ...back, line: 4 }), "done");
    const now = await other.mirror.read(key.session(id));
    assert.deepEqual([now?.best, now?.bestFinal, now?.validated], [bestFinal, bestFinal, undefined]);
    const record = await other.mirror.read(key.vnode(id, "b" as VNodeId));
    assert.deepEqual(Object.keys(record?.durable ?? {}), ["2", "4"]);
  });
});
