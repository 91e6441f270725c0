// What is left of a session when it ends: a finished one keeps its last and best states, a deleted one nothing.

import { listItems } from "../../store/update.ts";
import type { Context } from "../context.ts";
import type { Rooms } from "../fleet/rooms.ts";
import { key, prefix, type SessionRecord } from "../records/records.ts";
import { type Garbage, trimmed } from "./garbage.ts";
import type { VNodeRecords } from "./line.ts";
import { release } from "./recovery.ts";

/** Drops the states between, and step hashes that the step roots have made superfluous. */
export async function keepLastAndBest(
  { mirror }: Context,
  garbage: Garbage,
  session: SessionRecord,
  records: VNodeRecords,
): Promise<void> {
  for (const record of records.values()) {
    const { dropped } = trimmed(session, record.durable);
    if (dropped.length === 0 && Object.keys(record.stepHashes).length === 0) continue;
    await mirror.update(key.vnode(session.id, record.vnode), (current) =>
      current ? { ...current, durable: trimmed(session, current.durable).kept, stepHashes: {} } : undefined,
    );
    garbage.add(dropped);
  }
}

/** The session's own record goes last, so that whoever finds half of it goes on. */
export async function erase(
  context: Context,
  rooms: Rooms,
  garbage: Garbage,
  session: SessionRecord,
  records: VNodeRecords,
): Promise<void> {
  const { mirror, events } = context;
  await release(context, rooms, records);
  for (const record of records.values()) {
    await mirror.remove(key.vnode(session.id, record.vnode));
    garbage.add(Object.values(record.durable).map((state) => state.hash));
  }
  for (const own of [prefix.stepsOf(session.id), prefix.metricsOf(session.id)])
    for await (const { key: stored, version } of listItems(mirror.store, own))
      await mirror.store.delete(stored, version);
  await mirror.remove(key.session(session.id));
  events.emit("info", "session.deleted", `session ${session.id} is deleted`, { session: session.id });
}
