// Who owns a VNode: of two orchestrators that give it an owner one wins, since the other's decision was made on a record that has passed; and nobody goes on
// who was found to compute something else than the rest.

import assert from "node:assert/strict";
import { it } from "node:test";
import type { PNodeId, SessionId, VNodeId } from "../../core/ids.ts";
import { silentLog, type World } from "../../core/world.ts";
import { openMemoryStore } from "../../store/memory.ts";
import type { Context } from "../context.ts";
import type { PNodeRecord } from "../records/machines.ts";
import { Mirror } from "../records/mirror.ts";
import type { SessionRecord } from "../records/sessions.ts";
import { key } from "../records/store-keys.ts";
import type { VNodeRecord } from "../records/vnodes.ts";
import { type ClaimedDecision, survivors, writeMembers } from "./recovery.ts";

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

it("a machine that is shut out of a class loses what it hosts in it, whether or not it was ever in doubt", async () => {
  const mirror = new Mirror(openMemoryStore(), world);
  const context = { mirror, world } as unknown as Context;
  const here = { status: "online", life: 1 };
  await mirror.update(key.pnode("p" as PNodeId), () => ({ ...here, id: "p", excluded: ["fine"] }) as never);
  await mirror.update(key.pnode("q" as PNodeId), () => ({ ...here, id: "q" }) as never);
  await mirror.update(key.session(session), () => ({ id: session, numericsClass: "fine" }) as SessionRecord);
  const alive = (ownClass?: string) =>
    survivors(context, {
      ...unowned,
      members: ["p", "q"].map((pnode) => ({ pnode, life: 1, ...(ownClass && { class: ownClass }) })) as never,
    }).map(({ pnode }) => pnode);
  assert.deepEqual(alive(), ["q"]);
  assert.deepEqual(alive("coarse"), ["p", "q"], "lanes have classes of their own");
});
