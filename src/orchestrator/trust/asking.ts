// Who is asked next to repeat an interval, and what is noted of that. Pure, as what is decided from the answers is (disputes.ts, reasons.ts).

import type { PNodeId } from "../../core/ids.ts";
import type { Assurance } from "../../network/settings/session.ts";
import type { AuditRecord, AuditTask } from "../records/checking.ts";
import type { Missing } from "./silence.ts";

export interface Candidate {
  readonly pnode: PNodeId;
  readonly trusted: boolean;
}

/** What the decision needs to know of the world. */
export interface AuditFacts {
  /** To be noted; what is waited for is told by `waitedMs`. */
  readonly nowWallMs: number;
  /** For how long it has been waited for something, named by when it was noted (waits.ts). */
  waitedMs(sinceWallMs: number): number;
  readonly assurance: Assurance;
  /** How many of other owners and networks have to come to the same, where everything is checked. */
  readonly strangers: number;
  /** Drawn once more: what strangers say of it is checked by somebody who is trusted, if anybody is there. */
  readonly again?: boolean;
  /** When the interval was opened. */
  readonly openedWallMs: number;
  /** What its senders have not stored, once nobody will any more. */
  readonly missing: Missing | undefined;
  /** The blob store has lost something without which nobody can repeat it. */
  readonly isSpoiled: boolean;
  /** Of a state that somebody was to be measured by: it is not in the blob store, or damaged there. */
  isUnreadable(state: string): boolean;
  /** How long a repetition may take. */
  readonly patienceMs: number;
  /** Those who may repeat it, best first, none of those named. */
  candidates(except: ReadonlySet<PNodeId>, trustedOnly: boolean): readonly Candidate[];
  /** Attached, and able to repeat something. */
  isHere(pnode: PNodeId): boolean;
  /** It computes in the session's class, as far as it says now. */
  isOfClass(pnode: PNodeId): boolean;
  /** What it says counts for nothing any more: it was found wrong since, in whatever. */
  isOut(pnode: PNodeId): boolean;
}

/** One that had no room, or was away, is asked again after this. */
export const askAgainMs = 20_000;

/** It was here when something was asked of it, and has been gone for longer than a stream takes to come back. */
export function isAway(pnode: PNodeId, sinceWallMs: number, { waitedMs, isHere }: AuditFacts): boolean {
  return !isHere(pnode) && waitedMs(sinceWallMs) >= askAgainMs;
}

export function isUnderWay({ result, gaveUp }: AuditTask): boolean {
  return result === undefined && gaveUp === undefined;
}

/** Whoever has stated, repeated or been asked; one that could not may be asked again after a while. */
export function involvedIn(
  { stated, tasks }: Pick<AuditRecord, "stated" | "tasks">,
  waitedMs: AuditFacts["waitedMs"],
): Set<PNodeId> {
  const asked = tasks.filter(({ gaveUp, sinceWallMs }) => gaveUp === undefined || waitedMs(sinceWallMs) < askAgainMs);
  return new Set([...stated.map(({ pnode }) => pnode), ...asked.map(({ pnode }) => pnode)]);
}

/**
 * Who is asked next: the best of those who were not asked yet, then whoever was asked longest ago. One that can never do it, or only says so, is
 * as idle as before each time that it gives up: it would be the best again, and asked for ever.
 */
export function nextOf(audit: AuditRecord, facts: AuditFacts, trustedOnly: boolean): Candidate | undefined {
  const asked = new Map(audit.tasks.map(({ pnode, sinceWallMs }) => [pnode, sinceWallMs]));
  const askedWallMs = ({ pnode }: Candidate) => asked.get(pnode) ?? Number.NEGATIVE_INFINITY;
  const [next, ...others] = facts.candidates(involvedIn(audit, facts.waitedMs), trustedOnly);
  return others.reduce((best, one) => (best && askedWallMs(one) < askedWallMs(best) ? one : best), next);
}

/**
 * Where nobody else is left an owner that is trusted repeats it: of several, one after the other, what the others have computed as well; and what a stranger
 * contradicts, unless another trusted machine was asked for.
 */
export function ownerLeft({ stated, tasks }: AuditRecord, facts: AuditFacts): Candidate | undefined {
  const owners = new Set(stated.filter(({ apart }) => !apart).map(({ pnode }) => pnode));
  const isContradicted = tasks.some(({ role, result }) => role === "audit" && result !== undefined);
  if (owners.size < 2 && (facts.assurance === "proven" || !isContradicted)) return undefined;
  const asked = involvedIn({ stated: [], tasks }, facts.waitedMs);
  return facts.candidates(asked, true).find(({ pnode }) => owners.has(pnode));
}

/** Somebody who may repeat it and was never asked to, those who are trusted first. */
export function unaskedOf(
  { stated, tasks }: AuditRecord,
  facts: AuditFacts,
  trustedOnly: boolean,
): Candidate | undefined {
  const known = new Set([...stated, ...tasks].map(({ pnode }) => pnode));
  const [trusted] = facts.candidates(known, true);
  return trusted ?? (trustedOnly ? undefined : facts.candidates(known, false)[0]);
}

export function withTask(audit: AuditRecord, task: AuditTask): AuditRecord {
  const { pnode, role, trusted, sinceWallMs, against } = task;
  const others = audit.tasks.filter((one) => one.pnode !== pnode || one.role !== role || one.gaveUp === undefined);
  return {
    ...audit,
    tasks: [...others, { pnode, role, trusted, sinceWallMs, ...(against === undefined ? {} : { against }) }],
  };
}
