import assert from "node:assert/strict";
import { it } from "node:test";
import type { PNodeId } from "../../../core/ids.ts";
import { silentLog, type World } from "../../../core/world.ts";
import { openMemoryStore } from "../../../store/memory.ts";
import type { Context } from "../../context.ts";
import type { PNodeRecord } from "../../records/machines.ts";
import { Mirror } from "../../records/mirror.ts";
import { key } from "../../records/store-keys.ts";
import type { Presence } from "../orchestrators/presence.ts";
import { Relays } from "./relays.ts";

const clock = { wallMs: () => 0, monotonicMs: () => 0 };
const chance = { bytes: (count: number) => new Uint8Array(count), uniform: () => 0.5 };
const world: World = { clock, timers: { after: () => () => {} }, chance, log: silentLog };

it("who attaches while a relay is away for a moment hears that it is back", async () => {
  const mirror = new Mirror(openMemoryStore(), world);
  const heard: string[][] = [];
  const presence = { relays: () => [] } as unknown as Presence;
  const relays = new Relays({ mirror } as Context, presence, (places) => heard.push(places.map(({ name }) => name)));
  const id = "p4" as PNodeId;
  const record = { id, name: "p4", routes: "p4.test:7400", relay: { bytesPerSecond: 0 }, reached: "directly" };
  const becomes = (status: string) =>
    mirror.update(key.pnode(id), () => ({ ...record, status }) as unknown as PNodeRecord);

  await becomes("online");
  relays.look();
  await becomes("lost");
  const atTheDoor = relays.look();
  assert.deepEqual(atTheDoor, []);
  await becomes("online");
  relays.look();
  assert.deepEqual(heard, [["p4"], [], ["p4"]]);
  relays.look();
  assert.equal(heard.length, 3, "nothing new is not told again");
});
