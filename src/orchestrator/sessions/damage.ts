// A checkpoint that is missing or damaged. If it belongs to the recovery line, the whole session goes back to the
// line before: neighbours have thrown away what a single VNode would need from there. The bits stay the same.

import type { SessionId, Sha256, VNodeId } from "../../core/ids.ts";
import type { Context } from "../context.ts";
import { readSession } from "../records/fresh.ts";
import { key } from "../records/store-keys.ts";
import { isChecked, isLive } from "../records/workloads.ts";
import { repair } from "../trust/repair.ts";
import { recoveryLine } from "./line.ts";
import { damagedBlobs } from "./stored-states.ts";

export async function repairDamage(context: Context, session: SessionId, vnode: VNodeId, hash: Sha256): Promise<void> {
  const { mirror, events, tasks, blobs } = context;
  const record = await mirror.read(key.vnode(session, vnode));
  const step = Object.keys(record?.durable ?? {}).find((one) => record?.durable[one]?.hash === hash);
  // The PNode's own disk or line may be to blame: then loading it elsewhere will do.
  const damaged = step === undefined ? [] : await damagedBlobs(blobs.states, hash, () => tasks.stopped);
  if (step === undefined || damaged.length === 0) return;
  events.emit(
    "error",
    "state.damaged",
    `the state of VNode ${vnode} at step ${step} is missing or damaged (${hash.slice(0, 12)}…)`,
    { session, vnode, step: Number(step) },
  );
  // What lies damaged would pass for stored when somebody uploads it again.
  for (const blob of damaged) await blobs.states.delete(blob);
  await mirror.update(key.vnode(session, vnode), (current) => {
    if (current?.durable[step]?.hash !== hash) return undefined;
    const { [step]: _, ...durable } = current.durable;
    return { ...current, durable };
  });
  await goBack(context, session);
}

/**
 * Moves the line back to what is still whole; the new turn makes every VNode start there. Where nothing is checked, what VNodes have stored above
 * is as good as it was, and stays. Where results are checked, it is not known yet who was right about it: it is void.
 */
export async function goBack(context: Context, id: SessionId): Promise<void> {
  const { mirror, events } = context;
  const fresh = await readSession(context, id);
  if (fresh === undefined || !isLive(fresh.session)) return;
  const { session, records } = fresh;
  const line = recoveryLine(session, records);
  if (line >= session.line) return;
  const turn = (session.turn ?? 0) + 1;
  if (isChecked(session)) {
    await repair(context, id, { line, turn, because: "a state above it is lost" });
    return;
  }
  const { written } = await mirror.update(key.session(id), (current) =>
    current && isLive(current) && current.line === session.line && current.turn === session.turn
      ? { ...current, line, lineBefore: line, turn, turnLine: line }
      : undefined,
  );
  if (!written) return;
  events.emit(
    "warn",
    "session.back",
    `session ${id} goes back from step ${session.line} to ${line}, whose states are whole`,
    { session: id, step: line },
  );
}
