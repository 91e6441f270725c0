// Records as the store holds them now, for decisions that a mirror which is behind would get wrong: states can be
// taken back when they turn out to be damaged, so what was durable a moment ago may not be any more.

import { fail } from "../../core/errors.ts";
import { type JobId, parseId, type SessionId, type VNodeId } from "../../core/ids.ts";
import type { Context } from "../context.ts";
import { forEachAtOnce } from "../tasks.ts";
import { isEnded, type JobRecord } from "./jobs.ts";
import type { Mirror } from "./mirror.ts";
import type { SessionRecord } from "./sessions.ts";
import { key, prefix } from "./store-keys.ts";
import { inTurn } from "./turns.ts";
import type { VNodeRecord } from "./vnodes.ts";
import type { VNodeRecords } from "./workloads.ts";

const readsAtOnce = 32;

export interface FreshSession {
  readonly session: SessionRecord;
  readonly records: VNodeRecords;
}

/**
 * The session is read first: a line moves after VNodes have recorded what it stands on, so the records may only be newer. What the session has
 * taken back is left out.
 */
export async function readSession({ mirror }: Context, id: SessionId): Promise<FreshSession | undefined> {
  const session = await mirror.read(key.session(id));
  if (session === undefined) return undefined;
  const records = new Map<VNodeId, VNodeRecord>();
  await forEachAtOnce(session.vnodes, readsAtOnce, async (vnode) => {
    const record = await mirror.read(key.vnode(id, vnode));
    if (record !== undefined) records.set(vnode, inTurn(record, session));
  });
  return { session, records };
}

/** The job of this id, or the one of this name: the only one, or the only one that has not ended. */
export async function jobCalled(mirror: Mirror, text: string): Promise<JobRecord | undefined> {
  const id = text as JobId;
  const found = mirror.get(key.job(id)) ?? (await mirror.read(key.job(id)));
  if (found) return found;
  const named = mirror.under(prefix.jobs).filter(({ name }) => name === text);
  const open = named.filter((job) => !isEnded(job));
  const [only] = open.length > 0 ? open : named;
  return named.length === 1 || open.length === 1 ? only : undefined;
}

/** The session, or a sentence that there is none. */
export async function findSession(context: Context, id: string): Promise<SessionRecord> {
  const name = parseId<SessionId>(id, "the session");
  const known = context.mirror.get(key.session(name)) ?? (await context.mirror.read(key.session(name)));
  if (!known || known.status === "deleted")
    fail("not_found", `there is no session ${name}: \`dcnr session list\` shows them`);
  return known;
}
