// What a PNode is told to host, in whatever order the orchestrator that tells it hears of records.

import assert from "node:assert/strict";
import { it } from "node:test";
import type { PNodeId, SessionId, VNodeId } from "../../../core/ids.ts";
import { silentLog, type World } from "../../../core/world.ts";
import { openMemoryStore } from "../../../store/memory.ts";
import type { Context } from "../../context.ts";
import { Mirror } from "../../records/mirror.ts";
import type { SessionRecord } from "../../records/sessions.ts";
import { key } from "../../records/store-keys.ts";
import type { VNodeRecord } from "../../records/vnodes.ts";
import type { Charters } from "../../sessions/charters.ts";
import type { Compiled } from "../../sessions/compiled.ts";
import type { Capacity } from "../capacity/capacity.ts";
import { Assignments } from "./assignments.ts";
import type { Attachment } from "./attachment.ts";

const pnode = "p" as PNodeId;
const session = "s" as SessionId;
const vnode = "a" as VNodeId;
const clock = { wallMs: () => 0, monotonicMs: () => 0 };
const chance = { bytes: (count: number) => new Uint8Array(count), uniform: () => 0.5 };
const world: World = { clock, timers: { after: () => () => {} }, chance, log: silentLog };

it("a lane of its own class is not told to begin before the class that all lanes share is known, and then at once", async () => {
  const mirror = new Mirror(openMemoryStore(), world);
  let told = 0;
  const attachment = {
    incarnation: "i",
    tellAssignments: () => told++,
    tellSession: () => {},
  } as unknown as Attachment;
  const capacity = { vnodesOn: () => [key.vnode(session, vnode)], workloadsOn: () => [] } as unknown as Capacity;
  const charters = { crewOf: () => new Map(), sessions: () => [] } as unknown as Charters;
  const assignments = new Assignments(
    { mirror, world } as Context,
    capacity,
    {} as Compiled,
    charters,
    new Map([[pnode, attachment]]),
  );
  const classesTold = () => {
    const { event } = assignments.assignments(pnode, 1);
    assert.ok(event?.case === "assignments");
    return (event.value.assignments ?? []).map(({ work }) => work?.case === "learning" && work.value.commonClass);
  };
  const record = { id: session, status: "running", vnodes: [vnode], identity: {}, policy: {}, line: 0 };
  await mirror.update(key.session(session), () => record as unknown as SessionRecord);
  const members = [{ pnode, incarnation: "i", life: 1, since: 1, claim: "c", reason: "", class: "native-1" }];
  const placed = { session, vnode, epoch: 1, members, durable: {}, stepHashes: {} } as unknown as VNodeRecord;
  await mirror.update(key.vnode(session, vnode), () => placed);
  assert.deepEqual(classesTold(), []);

  const before = told;
  await mirror.update(key.session(session), (now) => ({ ...(now as SessionRecord), numericsClass: "portable-2" }));
  assert.ok(told > before, "it hears of the class");
  assert.deepEqual(classesTold(), ["portable-2"]);
});
