// Whether a model answers: placed is not enough, every VNode of a replica must have its weights.

import type { Context } from "../context.ts";
import type { Assignments } from "../fleet/assignments.ts";
import { isLive } from "../fleet/assignments.ts";
import { key, type ModelRecord, type SessionRecord } from "../records/records.ts";
import type { Views } from "../views/views.ts";

export interface StatusNeeds {
  readonly context: Context;
  readonly assignments: Assignments;
  readonly views: Views;
}

export interface ModelStatus {
  readonly status: "stopped" | "waiting" | "placing" | "loading" | "ready" | "failed";
  /** Why it is not ready, where there is more to say. */
  readonly reason: string;
}

/** As good as its best replica. */
export function statusOf(needs: StatusNeeds, model: ModelRecord): ModelStatus {
  const sessions = model.sessions.flatMap((id) => needs.context.mirror.get(key.session(id)) ?? []);
  if (sessions.length === 0) return { status: "stopped", reason: "" };
  const live = sessions.filter(isLive);
  const placed = live.filter((session) => needs.assignments.locations(session).length >= session.vnodes.length);
  const loading = placed.map((session) => loadingOf(needs, session));
  const nearest = loading.sort((a, b) => a.missing - b.missing)[0];
  if (nearest)
    return nearest.missing === 0 ? { status: "ready", reason: "" } : { status: "loading", reason: nearest.reason };
  const waiting = live.find((session) => session.status === "waiting");
  if (waiting) return { status: "waiting", reason: waiting.reason };
  const failed = sessions.find((session) => session.status === "failed");
  return live.length === 0 && failed ? { status: "failed", reason: failed.reason } : { status: "placing", reason: "" };
}

function loadingOf(needs: StatusNeeds, session: SessionRecord): { missing: number; reason: string } {
  const primaries = session.vnodes.flatMap((id) => needs.views.vnode(session, id).slice(0, 1));
  const missing = primaries.filter(({ phase }) => phase !== "serving");
  const trouble = missing.find(({ detail }) => detail);
  const count = `${missing.length} of ${session.vnodes.length} VNodes load their weights`;
  return { missing: missing.length, reason: trouble ? `VNode ${trouble.id}: ${trouble.detail}` : count };
}
