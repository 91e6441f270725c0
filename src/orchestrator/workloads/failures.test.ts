import assert from "node:assert/strict";
import { test } from "node:test";
import type { PNodeId, ReplicaId, SessionId, VNodeId, WorkloadId } from "../../core/ids.ts";
import type { Context } from "../context.ts";
import type { Rooms } from "../fleet/capacity/rooms.ts";
import { key } from "../records/store-keys.ts";
import type { VNodeRecord } from "../records/vnodes.ts";
import { avoided, noteFailure } from "./failures.ts";

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
    fail: async (pnode: string, noRoom: boolean) => {
      const member = { pnode: pnode as PNodeId, since: record.epoch } as VNodeRecord["members"][number];
      record = { ...record, members: [member] };
      await noteFailure(context, rooms, {
        ...{ workload, vnode, noRoom, detail: "why" },
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
  for (const pnode of ["a", "b"]) await at.fail(pnode, false);
  assert.equal(at.status, "running");
  assert.deepEqual(at.avoided(), ["a", "b"]);
  await at.fail("c", false);
  assert.equal(at.status, "failed");
});

test("PNodes without room are left alone for a while, however many, and the session goes on", async () => {
  const at = scene();
  for (const pnode of ["a", "b", "c", "d"]) await at.fail(pnode, true);
  assert.equal(at.members, 0);
  assert.equal(at.status, "running");
  assert.deepEqual(at.avoided(), ["a", "b", "c", "d"]);
  assert.deepEqual(new Set(at.events), new Set(["vnode.refused"]));
  await at.fail("e", false);
  at.pass(60_000);
  assert.deepEqual(at.avoided(), ["e"], "a refusal passes, also if nobody takes it back");
});

test("a replica that is refused goes on, one that fails on three PNodes fails", async () => {
  const at = scene("model@1" as ReplicaId);
  for (const pnode of ["a", "b", "c", "d"]) await at.fail(pnode, true);
  assert.equal(at.status, "running");
  for (const pnode of ["a", "b", "c"]) await at.fail(pnode, false);
  assert.equal(at.status, "failed");
  assert.equal(at.events.at(-1), "replica.failed");
});

test("a refusal is taken back after a while, so that whoever waits hears of it", async () => {
  const at = scene();
  await at.fail("a", true);
  await at.fail("a", false);
  await at.runLater();
  assert.deepEqual(at.avoided(), ["a"], "it failed there too");
  await at.fail("b", true);
  assert.deepEqual(at.avoided(), ["a", "b"]);
  await at.runLater();
  assert.deepEqual(at.avoided(), ["a"]);
});
