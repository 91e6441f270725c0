// How far a session is final: nothing below is missing its check, as the session's assurance asks, and no audit is open. What
// nobody drew becomes final with age, so that whoever lies has time to be found. Pure functions of records.

import type { PNodeId } from "../../core/ids.ts";
import { checkpointsBetween } from "../../network/checkpoints.ts";
import type { Accused, Certificate, IntervalRecord } from "../records/checking.ts";
import type { SessionRecord } from "../records/sessions.ts";
import { isClosed } from "./disputes.ts";
import { watchIntervals } from "./standing.ts";

/** A stranger may be the owner's friend: somebody else has time to find that out. */
const strangersAge = 10;

export interface FinalStep {
  readonly final: number;
  readonly certificate: Certificate;
  /** The intervals that have become final, oldest first. */
  readonly settled: readonly IntervalRecord[];
}

type SessionPart = Pick<SessionRecord, "line" | "final" | "turn" | "certificate" | "policy" | "identity" | "vnodes">;

/**
 * How far it is final now, of the intervals above what was. Only to where states are kept: what is final may be asked for, and is the furthest that the
 * session may have to go back to.
 */
export function finalOf(
  session: SessionPart,
  intervals: readonly IntervalRecord[],
  isKept: (step: number) => boolean,
): FinalStep {
  const { turn = 0, line } = session;
  let { final = 0 } = session;
  let certificate = session.certificate ?? { trusted: 0, strangers: 0, nobody: 0, root: "" };
  const settled: IntervalRecord[] = [];
  let passed: IntervalRecord[] = [];
  const waiting = intervals
    .filter((one) => one.to > final && one.to <= line && one.turn <= turn && one.stuck === undefined)
    .sort((a, b) => a.to - b.to);
  const bound = undoneFrom(intervals, final);
  for (const interval of waiting) {
    const from = passed.at(-1)?.to ?? final;
    if (interval.from !== from || interval.to > bound || !isSettled(interval, session)) break;
    passed.push(interval);
    if (!isKept(interval.to)) continue;
    final = interval.to;
    for (const one of passed) certificate = counted(certificate, one, session.vnodes.length);
    settled.push(...passed);
    passed = [];
  }
  return { final, certificate, settled };
}

/** Whatever is above it is taken back, or will be if somebody who is accused turns out to have lied: it cannot become final meanwhile. */
function undoneFrom(intervals: readonly IntervalRecord[], final: number): number {
  const planned = intervals.flatMap(({ repair }) => (repair === undefined ? [] : [repair.line]));
  const accused = intervals.flatMap(({ audits }) => Object.values(audits).flatMap((audit) => audit.accused));
  const mayBeLiar = ({ verdict }: Accused) => verdict === undefined || verdict === "lie" || verdict === "equivocation";
  const suspects = new Set(accused.filter(mayBeLiar).map(({ pnode }) => pnode));
  return Math.min(...planned, firstDoubtful(intervals, final, suspects));
}

/** Where the first interval begins that is not final and holds unchecked work of these. */
export function firstDoubtful(
  intervals: readonly IntervalRecord[],
  final: number,
  suspects: ReadonlySet<PNodeId>,
): number {
  const doubtful = intervals
    .filter(({ to, stuck }) => to > final && stuck === undefined)
    .filter(({ owners, audits }) =>
      Object.entries(owners).some(([vnode, owner]) => suspects.has(owner) && audits[vnode]?.outcome?.kind !== "right"),
    );
  return Math.min(...doubtful.map(({ from }) => from));
}

function isSettled(interval: IntervalRecord, { line, identity, policy }: SessionPart): boolean {
  const audits = Object.values(interval.audits);
  if (interval.repair !== undefined) return false;
  if (!audits.every((audit) => isClosed(audit) && audit.outcome?.kind !== "wrong" && audit.outcome?.kind !== "lost"))
    return false;
  // The last intervals are checked whole, and nothing comes after them.
  if (line === identity.steps) return true;
  const age = checkpointsBetween({ ...identity, ...policy }, interval.to, line);
  const isWhole = audits.length === Object.keys(interval.owners).length;
  if (isWhole && audits.every(({ outcome }) => outcome?.by === "trusted")) return true;
  if (policy.assurance === "checked" || policy.assurance === "proven") return age >= strangersAge;
  return age >= (isWhole && audits.every(({ outcome }) => outcome?.by !== "nobody") ? strangersAge : watchIntervals);
}

function counted(before: Certificate, { audits }: IntervalRecord, vnodes: number): Certificate {
  const by = (who: "trusted" | "strangers") =>
    Object.values(audits).filter(({ outcome }) => outcome?.by === who).length;
  const [trusted, strangers] = [by("trusted"), by("strangers")];
  return {
    trusted: before.trusted + trusted,
    strangers: before.strangers + strangers,
    nobody: before.nobody + vnodes - trusted - strangers,
    root: before.root,
  };
}

/** Lines that a session may go back to: the newest two, what is final, where an audit begins, and every eighth between. */
export function isKeptLine(
  session: Pick<SessionRecord, "line" | "lineBefore" | "final" | "drawn" | "identity" | "policy">,
  step: number,
): boolean {
  const { final = 0, line, drawn = [], identity, policy } = session;
  if (step < final || step > line) return false;
  if (step === final || drawn.some(({ from }) => from === step)) return true;
  return checkpointsBetween({ ...identity, ...policy }, 0, step) % 8 === 0;
}

/** The newest line that may leave the network: all of it is checked as the session asks, unless somebody wants more. */
export function lineToGive(session: Pick<SessionRecord, "policy" | "line" | "final">, provisional: boolean): number {
  return session.policy.assurance === undefined || provisional ? session.line : (session.final ?? 0);
}

/** For people. */
export function certificateSentence({
  policy,
  final = 0,
  certificate,
}: Pick<SessionRecord, "policy" | "final" | "certificate">): string {
  const { assurance = "none" } = policy;
  if (assurance === "none") return "";
  const { trusted, strangers, nobody } = certificate ?? { trusted: 0, strangers: 0, nobody: 0 };
  const all = trusted + strangers + nobody;
  if (all === 0) return `${assurance}; nothing is final yet`;
  const share = (count: number) => `${((100 * count) / all).toFixed(count === 0 || count === all ? 0 : 1)} %`;
  return `${assurance}; final up to step ${final}: ${share(trusted)} recomputed by trusted machines, ${share(strangers)} by strangers, ${share(nobody)} by nobody`;
}
