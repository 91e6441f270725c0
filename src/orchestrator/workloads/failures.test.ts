import assert from "node:assert/strict";
import { test } from "node:test";
import type { PNodeId, ReplicaId, SessionId, VNodeId, WorkloadId } from "../../core/ids.ts";
import type { Context } from "../context.ts";
import type { Rooms } from "../fleet/capacity/rooms.ts";
import { key } from "../records/store-keys.ts";
import type { VNodeRecord } from "../records/vnodes.ts";
import { avoided, lapsesOf, noteFailure, type VNodeFailure } from "./failures.ts";

const vnode = "v" as VNodeId;

/** A VNode that goes from PNode to PNode, each of which fails it. */
function scene(workload: WorkloadId = "s" as SessionId) {
  let record = { session: workload, vnode, epoch: 1, members: [], failures: [] } as unknown as VNodeRecord;
  let status = "running";
  let nowMs = 1_000_000;
  const later: (() => unknown)[] = [];
  const update = async (at: string, change: (current: unknown) => unknown) => {
    if (at === key.workload(workload)) {
      const changed = change({ status }) as { status: string } | undefined;
      status = changed?.status ?? status;
      return { record: { status }, written: changed !== undefined };
    }
    const changed = change(record) as VNodeRecord | undefined;
    record = changed ?? record;
    return { record, written: changed !== undefined };
  };
  const events: string[] = [];
  const context = {
    mirror: { update, get: () => undefined },
    world: { clock: { wallMs: () => nowMs, monotonicMs: () => nowMs } },
    events: { emit: (_level: string, kind: string) => events.push(kind) },
    tasks: { after: (_ms: number, then: () => unknown) => later.push(then) },
  } as unknown as Context;
  const rooms = { giveBack: async () => {} } as unknown as Rooms;
  return {
    events,
    fail: async (pnode: string, kind: VNodeFailure["kind"]) => {
      const member = { pnode: pnode as PNodeId, since: record.epoch } as VNodeRecord["members"][number];
      record = { ...record, members: [member] };
      await noteFailure(context, rooms, {
        ...{ workload, vnode, kind, detail: "why" },
        pnode: member.pnode,
        epoch: record.epoch,
      });
    },
    avoided: () => [...avoided(record, nowMs)].sort(),
    pass: (ms: number) => {
      nowMs += ms;
    },
    runLater: async () => {
      for (const then of later.splice(0)) await then();
    },
    get status() {
      return status;
    },
    get members() {
      return record.members.length;
    },
  };
}

test("a VNode that fails on three PNodes fails its session", async () => {
  const at = scene();
  for (const pnode of ["a", "b"]) await at.fail(pnode, "failed");
  assert.equal(at.status, "running");
  assert.deepEqual(at.avoided(), ["a", "b"]);
  await at.fail("c", "failed");
  assert.equal(at.status, "failed");
});

test("PNodes without room are left alone for a while, however many, and the session goes on", async () => {
  const at = scene();
  for (const pnode of ["a", "b", "c", "d"]) await at.fail(pnode, "noRoom");
  assert.equal(at.members, 0);
  assert.equal(at.status, "running");
  assert.deepEqual(at.avoided(), ["a", "b", "c", "d"]);
  assert.deepEqual(new Set(at.events), new Set(["vnode.refused"]));
  await at.fail("e", "failed");
  at.pass(60_000);
  assert.deepEqual(at.avoided(), ["e"], "a refusal passes, also if nobody takes it back");
});

test("a replica that is refused goes on, one that fails on three PNodes fails", async () => {
  const at = scene("model@1" as ReplicaId);
  for (const pnode of ["a", "b", "c", "d"]) await at.fail(pnode, "noRoom");
  assert.equal(at.status, "running");
  for (const pnode of ["a", "b", "c"]) await at.fail(pnode, "failed");
  assert.equal(at.status, "failed");
  assert.equal(at.events.at(-1), "replica.failed");
});

test("a refusal is taken back after a while, so that whoever waits hears of it", async () => {
  const at = scene();
  await at.fail("a", "noRoom");
  await at.fail("a", "failed");
  await at.runLater();
  assert.deepEqual(at.avoided(), ["a"], "it failed there too");
  await at.fail("b", "noRoom");
  assert.deepEqual(at.avoided(), ["a", "b"]);
  await at.runLater();
  assert.deepEqual(at.avoided(), ["a"]);
});

test("a PNode that had not kept what others needed to check it is left alone for longer, and the session goes on", async () => {
  const at = scene();
  for (const pnode of ["a", "b", "c", "d"]) await at.fail(pnode, "lapsed");
  assert.equal(at.status, "running");
  at.pass(60_000);
  assert.deepEqual(at.avoided(), ["a", "b", "c", "d"]);
  at.pass(240_000);
  assert.deepEqual(at.avoided(), []);
});

test("what a PNode had not kept is remembered when the VNode has come further elsewhere", () => {
  const failures = [
    { pnode: "a" as PNodeId, detail: "why" },
    { pnode: "b" as PNodeId, detail: "why", refusedWallMs: 0 },
    { pnode: "c" as PNodeId, detail: "why", refusedWallMs: 0, isLapse: true as const },
  ];
  assert.deepEqual(lapsesOf({ failures }), failures.slice(2));
});
