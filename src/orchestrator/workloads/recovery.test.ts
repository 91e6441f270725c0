// Of two orchestrators that give a VNode an owner, one wins: the other's decision was made on a record that has passed.

import assert from "node:assert/strict";
import { it } from "node:test";
import type { PNodeId, SessionId, VNodeId } from "../../core/ids.ts";
import { silentLog, type World } from "../../core/world.ts";
import { openMemoryStore } from "../../store/memory.ts";
import type { Context } from "../context.ts";
import type { PNodeRecord } from "../records/machines.ts";
import { Mirror } from "../records/mirror.ts";
import { key } from "../records/store-keys.ts";
import type { VNodeRecord } from "../records/vnodes.ts";
import { type ClaimedDecision, writeMembers } from "./recovery.ts";

const clock = { wallMs: () => 0, monotonicMs: () => 0 };
const chance = { bytes: (count: number) => new Uint8Array(count), uniform: () => 0.5 };
const world: World = { clock, timers: { after: () => () => {} }, chance, log: silentLog };
const [session, vnode] = ["s" as SessionId, "v" as VNodeId];
const unowned = { session, vnode, epoch: 4, members: [], durable: {} } as Partial<VNodeRecord> as VNodeRecord;

const decision = (pnode: string) =>
  ({ vnode, pnode, reason: "", claim: `claim on ${pnode}`, life: 1 }) as unknown as ClaimedDecision;

it("an owner that was decided on a record that somebody changed since is not written, and its claim comes back", async () => {
  const mirror = new Mirror(openMemoryStore(), world);
  const context = { mirror, world, events: { emit: () => {} } } as unknown as Context;
  for (const id of ["p", "q"] as PNodeId[])
    await mirror.update(key.pnode(id), () => ({ id, name: id, status: "online", life: 1 }) as unknown as PNodeRecord);
  await mirror.update(key.vnode(session, vnode), () => unowned);
  const place = (pnode: string) => writeMembers(context, unowned, [decision(pnode)], 2);

  assert.deepEqual(await place("p"), []);
  const left = await place("q");
  assert.deepEqual(
    left.map(({ claim }) => claim),
    ["claim on q"],
  );
  const now = mirror.get(key.vnode(session, vnode));
  assert.equal(now?.epoch, 5);
  assert.deepEqual(
    now?.members.map(({ pnode }) => pnode),
    ["p"],
  );
});
