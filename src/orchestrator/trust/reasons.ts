// Why somebody's result was wrong. It is asked in this order: is its class another by now, does it get the right result when it
// repeats the work, how far was it off. A broken machine and one that rounds otherwise are told from one that lies, and are never
// punished for it; nobody is called a liar whom nobody could measure.

import type { Accused, AuditRecord, AuditTask, FaultKind } from "../records/checking.ts";
import { type AuditFacts, askAgainMs, type Candidate, isAway, isUnderWay, nextOf, withTask } from "./asking.ts";

/** Below this share of what the interval changed, another rounding explains a difference: measured 7e-3 at most. */
const distanceOfRounding = 0.1;
/** For so long somebody is looked for who can measure. */
const measuringMs = 600_000;
/** So many strangers say that what somebody stored cannot be compared with anything: then it cannot. */
const incomparableFor = 2;

type Judge = (verdict: FaultKind | "cleared", story: string) => AuditRecord;

/** What can be found out now about the first of whom it is not known yet. */
export function judging(audit: AuditRecord, facts: AuditFacts): AuditRecord {
  const open = audit.accused.findIndex(({ verdict }) => verdict === undefined);
  if (open < 0) return audit;
  const accused = audit.accused[open] as Accused;
  const judge: Judge = (verdict, story) => ({
    ...audit,
    accused: audit.accused.with(open, { ...accused, verdict, story }),
  });
  const { pnode } = accused;
  if (!facts.isOfClass(pnode)) return judge("class", "it belongs to another numerics class by now");
  const repeat = audit.tasks.find((task) => task.role === "repeat" && task.pnode === pnode);
  if (repeat === undefined) {
    if (facts.isHere(pnode))
      return withTask(audit, { pnode, trusted: false, role: "repeat", sinceWallMs: facts.nowWallMs });
    return isAway(pnode, audit.outcome?.wallMs ?? 0, facts)
      ? judge("silence", "it was gone before it could be asked to repeat its work")
      : audit;
  }
  if (facts.isSpoiled) return judge("cleared", "the blob store has lost what it takes to find out why it was wrong");
  if (repeat.gaveUp !== undefined) {
    if (!mayPass(audit, repeat, facts)) return judge("silence", `asked to repeat its work, it ${repeat.gaveUp}`);
    if (facts.waitedMs(repeat.sinceWallMs) < askAgainMs) return audit;
    return withTask(audit, { pnode, trusted: false, role: "repeat", sinceWallMs: facts.nowWallMs });
  }
  if (repeat.result === undefined) return audit;
  if (repeat.result !== accused.result)
    return judge("hardware", "asked to repeat its work, it came to something else: its memory or processor errs");
  const against = accused.after || (repeat.after ?? "");
  if (against === "") return judge("class", "it comes to other bits than the rest, again and again");
  return (
    measuring(audit, { ...accused, after: against }, facts, judge) ?? unmeasured(audit, accused, against, facts, judge)
  );
}

/** It says itself that it could not: what it hosts may fill it, and goes elsewhere while it is in doubt. It gets as long as one that says nothing. */
function mayPass({ outcome }: AuditRecord, { wasUnable }: AuditTask, { waitedMs, patienceMs }: AuditFacts): boolean {
  return wasUnable === true && waitedMs(outcome?.wallMs ?? 0) < patienceMs;
}

/** Undefined where nobody has measured it, and nobody is left who could be asked now. */
function measuring(
  audit: AuditRecord,
  { after: against, result }: Accused,
  facts: AuditFacts,
  judge: Judge,
): AuditRecord | undefined {
  const tasks = audit.tasks.filter((task) => task.role === "measure" && task.against === against);
  const right = audit.outcome?.result;
  // Where a trusted machine has said what is right, only another one may say that it is not: a liar's friend would let it go.
  const trustedOnly = audit.outcome?.by === "trusted";
  // Whoever comes to a third result is wrong itself, and says nothing of how far somebody else is off.
  const measured = tasks.find(
    (task) => task.result === right || (task.result === result && !(trustedOnly && !task.trusted)),
  );
  if (measured === undefined) {
    if (tasks.some(isUnderWay)) return audit;
    if (isIncomparable(tasks) || facts.isUnreadable(against)) return undefined;
    const chosen = nextOf(audit, facts, trustedOnly) ?? oneWhoKnows(audit, tasks, facts, trustedOnly);
    if (chosen === undefined) return undefined;
    const { pnode, trusted } = chosen;
    return withTask(audit, { pnode, trusted, role: "measure", against, sinceWallMs: facts.nowWallMs });
  }
  if (measured.result === result) return judge("cleared", "two referees disagree: the numerics class itself is broken");
  const distance = measured.distance ?? -1;
  // Its weights are where they were before, or it has none: what it sent on may still have been rounded otherwise.
  if (distance < 0)
    return judge("class", "it comes to other bits than the rest, and no weight moved by which it could be measured");
  if (distance < distanceOfRounding)
    return judge(
      "class",
      `it is off by ${distance.toExponential(1)} of what the interval changed: it rounds otherwise`,
    );
  const far = `off by ${distance.toPrecision(2)} times what the interval changed`;
  return judge("lie", `it insists on a result that nobody else comes to, ${far}`);
}

/** Those who repeated it already know the result; whoever is trusted among them may measure. One that could not is asked again after a while. */
function oneWhoKnows(
  { tasks: all, outcome }: AuditRecord,
  tasks: readonly AuditTask[],
  { waitedMs, isHere }: AuditFacts,
  trustedOnly: boolean,
): Candidate | undefined {
  const asked = new Map(tasks.map(({ pnode, sinceWallMs }) => [pnode, sinceWallMs]));
  const isFree = ({ pnode }: AuditTask) => {
    const sinceWallMs = asked.get(pnode);
    return sinceWallMs === undefined || waitedMs(sinceWallMs) >= askAgainMs;
  };
  return all
    .filter(({ role, result, trusted }) => role === "audit" && result === outcome?.result && (trusted || !trustedOnly))
    .filter((task) => isHere(task.pnode) && isFree(task))
    .toSorted((a, b) => (asked.get(a.pnode) ?? 0) - (asked.get(b.pnode) ?? 0))[0];
}

function isIncomparable(tasks: readonly AuditTask[]): boolean {
  const saying = tasks.filter(({ isImpossible }) => isImpossible);
  return saying.some(({ trusted }) => trusted) || saying.length >= incomparableFor;
}

function unmeasured(
  audit: AuditRecord,
  { after }: Accused,
  against: string,
  facts: AuditFacts,
  judge: Judge,
): AuditRecord {
  // What an owner stated was whole when it was recorded. What somebody has stored since, in order to be compared, nobody has seen but itself.
  if (facts.isUnreadable(against))
    return after === ""
      ? judge(
          "lie",
          "it insists on a result that nobody else comes to, and has not stored the state that it says it comes to",
        )
      : judge("cleared", "the blob store has lost the state that it came to");
  const tasks = audit.tasks.filter((task) => task.role === "measure" && task.against === against);
  const isLate = facts.waitedMs(begunWallMs(audit)) >= measuringMs;
  if (isIncomparable(tasks) || (isLate && tasks.some(({ isImpossible }) => isImpossible)))
    return judge(
      "lie",
      "it insists on a result that nobody else comes to, and what it stored is no state of this VNode",
    );
  if (isLate)
    return judge("class", "it comes to other bits than the rest, and nobody could measure how far off they are");
  return audit;
}

/** Since when everything is known but how far somebody was off. */
function begunWallMs({ outcome, tasks }: AuditRecord): number {
  return Math.max(
    outcome?.wallMs ?? 0,
    ...tasks.flatMap(({ role, sinceWallMs }) => (role === "repeat" ? [sinceWallMs] : [])),
  );
}
