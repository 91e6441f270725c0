// Intervals that were opened by an orchestrator that died before the line had passed them.

import assert from "node:assert/strict";
import { it } from "node:test";
import { asideHere } from "../../core/aside.ts";
import { sha256 } from "../../core/hash.ts";
import type { PNodeId, SessionId, VNodeId } from "../../core/ids.ts";
import { openMemoryStore } from "../../store/memory.ts";
import { realWorld } from "../../system/world.ts";
import type { Statement } from "../../trust/statement.ts";
import type { Context } from "../context.ts";
import type { IntervalRecord, Stated } from "../records/checking.ts";
import { Mirror } from "../records/mirror.ts";
import type { SessionRecord } from "../records/sessions.ts";
import { key } from "../records/store-keys.ts";
import type { VNodeRecord } from "../records/vnodes.ts";
import type { Standings } from "./standings.ts";
import { TrustCare, type TrustNeeds } from "./trust-care.ts";

const id = "s" as SessionId;
const vnode = "a" as VNodeId;

const statedBy = (pnode: string): Stated => ({
  ...{ pnode: pnode as PNodeId, turn: 0 },
  statement: {
    ...{ session: id, vnode, from: 0, to: 2, life: pnode, before: "", after: sha256(pnode), afterBytes: 1 },
    ...{ inputs: sha256("in"), outputs: sha256(`${pnode} out`), edges: {} },
  } as unknown as Statement,
});

/** A session of one VNode whose first interval was opened by what its first owner had stated; the line has not passed it. */
async function scene() {
  const mirror = new Mirror(openMemoryStore(), realWorld({ logFormat: "none" }));
  const session = {
    ...{ id, vnodes: [vnode], line: 0, turn: 0, status: "running", identity: { steps: 10 }, drawn: [] },
    policy: { checkpointEvery: 2, assurance: "sampled", replicas: 1 },
  } as unknown as SessionRecord;
  const left = {
    ...{ session: id, from: 0, to: 2, turn: 0, statements: "", root: "", draw: "d", openedWallMs: 0 },
    ...{ owners: { a: "p" }, audits: { a: { stated: [statedBy("p")], tasks: [], ready: false, accused: [] } } },
  } as unknown as IntervalRecord;
  await mirror.update(key.session(id), () => session);
  await mirror.update(key.interval(id, 2), () => left);
  const asked: string[] = [];
  const get = async (hash: string) => {
    asked.push(hash);
    return new Uint8Array();
  };
  const states = { get, size: async () => undefined };
  const context = {
    mirror,
    aside: asideHere,
    blobs: { states },
    world: realWorld({ logFormat: "none" }),
    events: { emit: () => {} },
  };
  const standings = { of: () => ({ right: 0 }), all: () => [], change: async () => {} } as unknown as Standings;
  const auditors = { isHere: () => true, candidates: () => [] };
  const compiled = { planOf: async () => ({ edges: [] }) };
  const needs = { compiled, standings, auditors } as unknown as TrustNeeds;
  return { mirror, session, asked, care: new TrustCare(context as unknown as Context, needs) };
}

it("a contradiction is looked at although somebody had opened the interval before it came to light", async () => {
  const { mirror, session, care } = await scene();
  const stated = [statedBy("p"), statedBy("q")];
  const statements = { "2": stated };
  const records = new Map([[vnode, { vnode, members: [], statements } as unknown as VNodeRecord]]);
  await care.stuck(session, records, {
    ...{ kind: "disagreement", vnode, from: 0, to: 2 },
    doubtful: new Map([[vnode, stated]]),
  });
  const interval = mirror.get(key.interval(id, 2));
  assert.match(interval?.stuck ?? "", /owners of VNode a come to different results/);
  assert.equal(interval?.audits["a"]?.stated.length, 2);
});

it("nobody is asked for what it was not told to keep: an interval counts once the line has passed it", async () => {
  const { asked, care } = await scene();
  await care.tend(id);
  assert.deepEqual(asked, []);
});

it("owners are asked for what a contradiction takes although whoever found it died before it could ask: nobody is silent who was never asked", async () => {
  const { mirror, session, care } = await scene();
  const stated = [statedBy("p"), statedBy("q")];
  const records = new Map([[vnode, { vnode, members: [], statements: { "2": stated } } as unknown as VNodeRecord]]);
  await care.stuck(session, records, {
    ...{ kind: "disagreement", vnode, from: 0, to: 2 },
    doubtful: new Map([[vnode, stated]]),
  });
  assert.deepEqual(mirror.get(key.session(id))?.drawn, [{ vnode, from: 0, to: 2 }]);
  await mirror.update(key.session(id), (current) => current && { ...current, drawn: [] });
  await care.tend(id);
  assert.deepEqual(mirror.get(key.session(id))?.drawn, [{ vnode, from: 0, to: 2 }]);
});

it("nobody is given up because the clocks of two orchestrators are an hour apart, or one has leapt ahead since somebody was asked", async () => {
  const { mirror, care } = await scene();
  await mirror.update(key.session(id), (current) => current && { ...current, line: 2 });
  const anHourAgo = Date.now() - 3_600_000;
  const task = { pnode: "x" as PNodeId, role: "audit", trusted: false, sinceWallMs: anHourAgo } as const;
  const audits = { a: { stated: [statedBy("p")], tasks: [task], ready: true, accused: [] } };
  await mirror.update(key.interval(id, 2), (current) => current && { ...current, audits });
  await care.tend(id);
  await care.tend(id);
  assert.equal(mirror.get(key.interval(id, 2))?.audits["a"]?.tasks[0]?.gaveUp, undefined);
});

it("what was final and comes out otherwise is computed again at once, and repeated by others if it comes out otherwise once more", async () => {
  const { mirror, care } = await scene();
  await mirror.remove(key.interval(id, 2));
  await mirror.update(key.session(id), (current) => current && { ...current, final: 2 });
  const stated = { "2": [{ ...statedBy("p"), turn: 1 }] };
  const records = new Map([[vnode, { vnode, members: [], statements: stated } as unknown as VNodeRecord]]);
  const deviates = () => care.deviated(mirror.get(key.session(id)) as SessionRecord, records, 2, { from: 0, to: 2 });
  await deviates();
  assert.equal(mirror.get(key.session(id))?.turn, 1);
  assert.equal(mirror.get(key.interval(id, 2)), undefined);
  await deviates();
  const now = mirror.get(key.session(id));
  assert.equal(now?.turn, 1, "who is wrong is found out first");
  assert.deepEqual(Object.keys(mirror.get(key.interval(id, 2))?.audits ?? {}), [vnode]);
  assert.deepEqual(now?.drawn, [{ vnode, from: 0, to: 2 }]);
  await care.tend(id);
  assert.ok(mirror.get(key.interval(id, 2)) !== undefined, "it is not over though it is below what is final");
});
