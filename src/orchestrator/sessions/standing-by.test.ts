// Who is told to stand by: those who would follow an owner and host nothing yet, once for each attachment, and no longer than
// the session that they were told of lives.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { PNodeId, SessionId, VNodeId } from "../../core/ids.ts";
import { virtualWorld } from "../../core/virtual-world.testing.ts";
import { Fleet } from "../../scheduler/placement/fleet.ts";
import { chain, node, policy, vnode } from "../../scheduler/placement.testing.ts";
import { openMemoryStore } from "../../store/memory.ts";
import type { Context } from "../context.ts";
import type { PNodeRecord } from "../records/machines.ts";
import { Mirror } from "../records/mirror.ts";
import type { SessionRecord } from "../records/sessions.ts";
import { key } from "../records/store-keys.ts";
import type { VNodeRecord } from "../records/vnodes.ts";
import { Tasks } from "../tasks.ts";
import { StandingBy } from "./standing-by.ts";

const session = "s" as SessionId;
const vnodes = ["v0", "v1"] as VNodeId[];
const plan = chain(vnodes.map((id) => vnode(id)));

class CountedFleet extends Fleet {
  copies = 0;

  override copy(): Fleet {
    this.copies++;
    return super.copy();
  }
}

async function scene(pnodes: readonly string[]) {
  const { world, until } = virtualWorld();
  const mirror = new Mirror(openMemoryStore(), world);
  const tasks = new Tasks(world);
  const context = { mirror, world, tasks } as unknown as Context;
  const told = new Map<string, string[]>();
  const attach = (id: string) => ({
    tellStandBy: (sessions: readonly { session: string; vnodes: string[] }[]) =>
      void told.set(id, [...(told.get(id) ?? []), sessions.map((one) => `${one.session}: ${one.vnodes}`).join("; ")]),
  });
  const attachments = new Map(pnodes.map((id) => [id as PNodeId, attach(id)]));
  const fleet = new CountedFleet(pnodes.map((id) => node(id)));
  new StandingBy(context, {
    capacity: { fleet },
    sessions: { plan: async () => plan, classes: () => undefined },
    attachments,
  });
  const { bits, engine, numericsClass, requirements } = policy();
  const record = (createdWallMs: number, status = "running") =>
    ({
      ...{ id: session, status, vnodes, createdWallMs, numericsClass, requirements, policy: {} },
      identity: { bits, numerics: engine },
    }) as unknown as SessionRecord;
  for (const id of pnodes)
    await mirror.update(key.pnode(id), () => ({ id, status: "online", life: 1 }) as unknown as PNodeRecord);
  await mirror.update(key.session(session), () => record(1));
  const own = (id: VNodeId, pnode: string) =>
    mirror.update(
      key.vnode(session, id),
      () =>
        ({
          ...{ session, vnode: id, epoch: 1, durable: {}, failures: [] },
          members: [{ pnode, life: 1 }],
        }) as unknown as VNodeRecord,
    );
  const passed = async (ms: number) => {
    let over = false;
    world.timers.after(ms, () => {
      over = true;
    });
    await until(() => over);
  };
  return { mirror, told, own, passed, attach, attachments, record, fleet };
}

test("those who would follow an owner and host nothing are told once what they would get", async () => {
  const { told, own, passed } = await scene(["a", "b", "c"]);
  await own("v0" as VNodeId, "a");
  await own("v1" as VNodeId, "b");
  await passed(3_000);
  assert.deepEqual(told.get("a"), undefined);
  assert.deepEqual(told.get("b"), undefined);
  assert.deepEqual(told.get("c"), ["s: v0,v1"]);
  await own("v0" as VNodeId, "a");
  await passed(3_000);
  assert.equal(told.get("c")?.length, 1, "nothing has changed");
});

test("a fleet is copied once, however many owners are taken for lost, and is whole again for each", async () => {
  const { told, own, passed, fleet } = await scene(["a", "b", "c"]);
  await own("v0" as VNodeId, "a");
  await own("v1" as VNodeId, "b");
  await passed(3_000);
  assert.equal(fleet.copies, 1);
  assert.deepEqual(told.get("c"), ["s: v0,v1"]);
  assert.deepEqual([...fleet.nodes()].map(({ id }) => id).sort(), ["a", "b", "c"]);
});

test("whoever attaches anew is told anew", async () => {
  const { mirror, told, own, passed, attach, attachments } = await scene(["a", "b", "c"]);
  await own("v0" as VNodeId, "a");
  await own("v1" as VNodeId, "b");
  await passed(3_000);
  attachments.set("c" as PNodeId, attach("c"));
  await mirror.update(key.pnode("c"), (now) => ({ ...(now as PNodeRecord), attachment: "next" }));
  await passed(3_000);
  assert.deepEqual(told.get("c"), ["s: v0,v1", "s: v0,v1"]);
});

test("a session that ends, or comes again under its id, is void at once", async () => {
  for (const next of [
    { createdWallMs: 1, status: "done" },
    { createdWallMs: 2, status: "running" },
  ]) {
    const { mirror, told, own, passed, record } = await scene(["a", "b", "c"]);
    await own("v0" as VNodeId, "a");
    await own("v1" as VNodeId, "b");
    await passed(3_000);
    await mirror.update(key.session(session), () => record(next.createdWallMs, next.status));
    assert.deepEqual(told.get("c"), ["s: v0,v1", ""]);
  }
});
