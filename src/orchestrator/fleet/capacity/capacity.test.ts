// What placement believes is free on a PNode follows its room record, claim by claim; and how room is claimed of several.

import assert from "node:assert/strict";
import { it } from "node:test";
import type { PNodeId, SessionId, VNodeId } from "../../../core/ids.ts";
import { silentLog, type World } from "../../../core/world.ts";
import type { Claim } from "../../../scheduler/room.ts";
import { openMemoryStore } from "../../../store/memory.ts";
import type { Context } from "../../context.ts";
import type { PNodeRecord } from "../../records/machines.ts";
import { Mirror } from "../../records/mirror.ts";
import { key } from "../../records/store-keys.ts";
import { Flapping } from "../believed/flapping.ts";
import { Capacity } from "./capacity.ts";
import { lentBy, Rooms } from "./rooms.ts";

const gigabyte = 1 << 30;
const pnode = "p" as PNodeId;
const clock = { wallMs: () => 0, monotonicMs: () => 0 };
const chance = { bytes: (count: number) => new Uint8Array(count), uniform: () => 0.5 };
const world: World = { clock, timers: { after: () => () => {} }, chance, log: silentLog };

const record = {
  id: pnode,
  life: 2,
  status: "online",
  facts: { cores: 4, memoryBytes: 8 * gigabyte, gpus: [{ memoryBytes: gigabyte }], gflops: 10, numerics: [] },
  limits: { cpus: 0, memoryBytes: 0 },
  history: { reliability: 1 },
} as unknown as PNodeRecord;

function claim(session: string, memoryBytes: number, gpus = 0): Claim {
  return { session: session as SessionId, vnode: "v" as VNodeId, epoch: 1, memoryBytes, gpus };
}

it("what is claimed of a PNode is not free, whoever claimed it; what an earlier life had claimed is", async () => {
  const mirror = new Mirror(openMemoryStore(), world);
  const capacity = new Capacity({ mirror, world } as Context, new Map(), new Flapping(clock));
  const lent = lentBy(record);
  await mirror.update(key.pnode(pnode), () => record);
  assert.equal(capacity.fleet.get(pnode)?.memoryFreeBytes, lent.memoryBytes);

  const claims = { a: claim("s1", 3 * gigabyte, 1), b: claim("s2", gigabyte) };
  await mirror.update(key.room(pnode), () => ({ pnode, life: 2, claims }));
  assert.equal(capacity.fleet.get(pnode)?.memoryFreeBytes, lent.memoryBytes - 4 * gigabyte);
  assert.equal(capacity.fleet.get(pnode)?.gpusFree, 0);
  assert.deepEqual(Array.from(capacity.fleet.get(pnode)?.hosts ?? []), [
    ["s1", 1],
    ["s2", 1],
  ]);

  await mirror.update(key.pnode(pnode), () => ({ ...record, life: 3 }));
  assert.equal(capacity.fleet.get(pnode)?.memoryFreeBytes, lent.memoryBytes);
});

it("claims in order end at the first refusal, so that whoever is refused holds nothing that comes after it", async () => {
  const mirror = new Mirror(openMemoryStore(), world);
  const rooms = new Rooms({ mirror, world } as Context);
  const names = ["c", "a", "b"] as PNodeId[];
  for (const id of names) await mirror.update(key.pnode(id), () => ({ ...record, id }));
  const taken = { other: claim("s2", lentBy(record).memoryBytes) };
  await mirror.update(key.room(names[2] as PNodeId), () => ({ pnode: names[2] as PNodeId, life: 2, claims: taken }));
  const workload = "s1" as SessionId;
  const wanted = new Map(names.map((id) => [id, [{ workload, claims: { [`on ${id}`]: claim(workload, gigabyte) } }]]));
  const granted = async (inOrder: boolean) => {
    const grants = await rooms.claim(wanted, inOrder);
    const got = names.filter((id) => grants.get(id)?.workloads.has(workload));
    await rooms.giveBack(got.map((id) => ({ pnode: id, claim: `on ${id}` })));
    return got;
  };
  assert.deepEqual(await granted(false), ["c", "a"]);
  assert.deepEqual(await granted(true), ["a"]);
});

it("an orchestrator that is refused because a PNode was restarted hears of that at once", async () => {
  const store = openMemoryStore();
  const [behind, ahead] = [new Mirror(store, world), new Mirror(store, world)];
  await behind.update(key.pnode(pnode), () => record);
  await ahead.update(key.pnode(pnode), () => ({ ...record, life: 3 }));
  await ahead.update(key.room(pnode), () => ({ pnode, life: 3, claims: {} }));
  const rooms = new Rooms({ mirror: behind, world } as Context);
  const workload = "s1" as SessionId;
  const wanted = new Map([[pnode, [{ workload, claims: { one: claim(workload, gigabyte) } }]]]);
  assert.equal((await rooms.claim(wanted)).get(pnode)?.workloads.size, 0);
  assert.deepEqual((await rooms.claim(wanted)).get(pnode), { life: 3, workloads: new Set([workload]) });
});
