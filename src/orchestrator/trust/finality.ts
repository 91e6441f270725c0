// How far a session is final: nothing below is missing its check, as the session's assurance asks, and no audit is open. What
// nobody drew becomes final with age, so that whoever lies has time to be found. Pure functions of records.

import type { Certificate, IntervalRecord } from "../records/checking.ts";
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

/** How far it is final now, of the intervals above what was. */
export function finalOf(session: SessionPart, intervals: readonly IntervalRecord[]): FinalStep {
  const { turn = 0, line } = session;
  let { final = 0 } = session;
  let certificate = session.certificate ?? { trusted: 0, strangers: 0, nobody: 0, root: "" };
  const settled: IntervalRecord[] = [];
  const waiting = intervals
    .filter((one) => one.to > final && one.to <= line && one.turn <= turn && one.stuck === undefined)
    .sort((a, b) => a.to - b.to);
  for (const interval of waiting) {
    if (interval.from !== final || !isSettled(interval, session)) break;
    final = interval.to;
    certificate = counted(certificate, interval, session.vnodes.length);
    settled.push(interval);
  }
  return { final, certificate, settled };
}

function isSettled(interval: IntervalRecord, { line, identity, policy }: SessionPart): boolean {
  const audits = Object.values(interval.audits);
  if (interval.repair !== undefined) return false;
  if (!audits.every((audit) => isClosed(audit) && audit.outcome?.kind !== "wrong" && audit.outcome?.kind !== "lost"))
    return false;
  // The last intervals are checked whole, and nothing comes after them.
  if (line === identity.steps) return true;
  const age = Math.floor((line - interval.to) / policy.checkpointEvery);
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
  session: Pick<SessionRecord, "line" | "lineBefore" | "final" | "drawn" | "policy">,
  step: number,
): boolean {
  const { final = 0, line, drawn = [], policy } = session;
  if (step < final || step > line) return false;
  if (step === final || drawn.some(({ from }) => from === step)) return true;
  return (step / policy.checkpointEvery) % 8 === 0;
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
