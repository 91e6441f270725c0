// Whether a model answers: placed is not enough, every VNode of a replica must have its weights.

import type { Context } from "../context.ts";
import type { Assignments } from "../fleet/attached/assignments.ts";
import type { ModelRecord, ReplicaRecord } from "../records/sessions.ts";
import { key } from "../records/store-keys.ts";
import { isLive } from "../records/workloads.ts";
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
  const replicas = model.replicas.flatMap((id) => needs.context.mirror.get(key.replica(id)) ?? []);
  if (replicas.length === 0) return { status: "stopped", reason: "" };
  const live = replicas.filter(isLive);
  const placed = live.filter((replica) => needs.assignments.locations(replica).length >= replica.vnodes.length);
  const loading = placed.map((replica) => loadingOf(needs, replica));
  const nearest = loading.sort((a, b) => a.missing - b.missing)[0];
  if (nearest)
    return nearest.missing === 0 ? { status: "ready", reason: "" } : { status: "loading", reason: nearest.reason };
  const waiting = live.find((replica) => replica.status === "waiting");
  if (waiting) return { status: "waiting", reason: waiting.reason };
  const failed = replicas.find((replica) => replica.status === "failed");
  return live.length === 0 && failed ? { status: "failed", reason: failed.reason } : { status: "placing", reason: "" };
}

/** How many replicas have all their weights. */
export function readyReplicas(needs: StatusNeeds, model: ModelRecord): number {
  return readyOf(needs, model).length;
}

function readyOf(needs: StatusNeeds, model: ModelRecord): ReplicaRecord[] {
  const replicas = model.replicas.flatMap((id) => needs.context.mirror.get(key.replica(id)) ?? []).filter(isLive);
  const placed = replicas.filter((replica) => needs.assignments.locations(replica).length >= replica.vnodes.length);
  return placed.filter((replica) => loadingOf(needs, replica).missing === 0);
}

/** What a model is kept in, unless float32, and what that cost: the largest error that a VNode of a ready replica measured. */
export function weightsOf(needs: StatusNeeds, model: ModelRecord): { weights?: string; weightError?: number } {
  if (!model.weights) return {};
  const measured = readyOf(needs, model).flatMap((replica) =>
    replica.vnodes.flatMap((id) => needs.views.vnode(replica, id).flatMap(({ weightError }) => weightError ?? [])),
  );
  return { weights: model.weights, ...(measured.length > 0 && { weightError: Math.max(...measured) }) };
}

/** What guesses beside a model, and what came of its guesses: of those that its replicas' heads told, by kind. */
export function guessingOf(
  needs: StatusNeeds,
  model: ModelRecord,
): { draft?: string; draftWeights?: string; guesses?: Guessed[] } {
  const { source: draft, weights } = model.draft ?? {};
  const told = model.replicas
    .flatMap((id) => needs.context.mirror.get(key.replica(id)) ?? [])
    .flatMap((replica) => replica.vnodes.flatMap((id) => needs.views.vnode(replica, id)))
    .flatMap(({ guesses = [] }) =>
      guesses.map(({ kind = "", guessed = 0n, right = 0n }) => ({ kind, guessed, right })),
    );
  const kinds = [...new Set(told.map(({ kind }) => kind))];
  const sum = (kind: string, of: "guessed" | "right") =>
    told.reduce((all, one) => all + (one.kind === kind ? one[of] : 0n), 0n);
  const guesses = kinds.map((kind) => ({ kind, guessed: sum(kind, "guessed"), right: sum(kind, "right") }));
  return {
    ...(draft !== undefined && { draft }),
    ...(weights && { draftWeights: weights }),
    ...(guesses.length > 0 && { guesses }),
  };
}

export interface Guessed {
  readonly kind: string;
  readonly guessed: bigint;
  readonly right: bigint;
}

function loadingOf(needs: StatusNeeds, replica: ReplicaRecord): { missing: number; reason: string } {
  const primaries = replica.vnodes.flatMap((id) => needs.views.vnode(replica, id).slice(0, 1));
  const missing = primaries.filter(({ phase }) => phase !== "serving");
  const trouble = missing.find(({ detail }) => detail);
  const count = `${missing.length} of ${replica.vnodes.length} VNodes load their weights`;
  return { missing: missing.length, reason: trouble ? `VNode ${trouble.id}: ${trouble.detail}` : count };
}
