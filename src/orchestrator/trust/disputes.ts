// One audit from its draw to its outcome, and what follows for those whose results were wrong. Pure: what is known in, what
// to do next out. Bits decide: a trusted machine's, or those of two owners against one. Whoever was wrong is then asked in
// this order: is its class another by now, does it get the right result when it repeats the work, how far was it off. A
// broken machine and one that rounds otherwise are told from one that lies, and are never punished for it.

import type { PNodeId, VNodeId } from "../../core/ids.ts";
import type { Assurance } from "../../network/settings/session.ts";
import { resultOf } from "../../trust/statement.ts";
import type { Accused, AuditOutcome, AuditRecord, AuditTask, FaultKind, Stated } from "../records/checking.ts";
import type { Missing } from "./silence.ts";

export interface Candidate {
  readonly pnode: PNodeId;
  readonly trusted: boolean;
}

/** What the decision needs to know of the world. */
export interface AuditFacts {
  readonly nowWallMs: number;
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
  /** How long a repetition may take. */
  readonly patienceMs: number;
  /** Those who may repeat it, best first, none of those named. */
  candidates(except: ReadonlySet<PNodeId>, trustedOnly: boolean): readonly Candidate[];
  /** Attached, and able to repeat something. */
  isHere(pnode: PNodeId): boolean;
  /** It computes in the session's class, as far as it says now. */
  isOfClass(pnode: PNodeId): boolean;
}

/** So many say that what was listed does not make up the interval, and the blob store has lost nothing: then it does not. */
const impossibleFor = 3;
/** A session that is only sampled does not wait longer for somebody to come who could check. */
const nobodyMs = 60_000;
/** One that had no room, or was away, is asked again after this. */
const askAgainMs = 20_000;
/** Below this share of what the interval changed, another rounding explains a difference: measured 7e-3 at most. */
export const distanceOfRounding = 0.1;

/** The audit after everything that can be decided now; the same object if nothing can. */
export function advanced(audit: AuditRecord, facts: AuditFacts): AuditRecord {
  const withoutLost = giveUpLost(audit, facts);
  if (withoutLost.outcome === undefined) return checking(withoutLost, facts);
  return judging(withoutLost, facts);
}

/** True once nothing more will come of it. */
export function isClosed({ outcome, accused }: AuditRecord): boolean {
  return outcome !== undefined && accused.every(({ verdict }) => verdict !== undefined);
}

function giveUpLost(audit: AuditRecord, { nowWallMs, patienceMs, isHere }: AuditFacts): AuditRecord {
  const isLost = ({ pnode, result, gaveUp, sinceWallMs }: AuditTask) =>
    result === undefined && gaveUp === undefined && (!isHere(pnode) || since(sinceWallMs, nowWallMs) > patienceMs);
  if (!audit.tasks.some(isLost)) return audit;
  return { ...audit, tasks: audit.tasks.map((task) => (isLost(task) ? { ...task, gaveUp: "did not answer" } : task)) };
}

/** Finds out what is right. */
function checking(audit: AuditRecord, facts: AuditFacts): AuditRecord {
  const { nowWallMs, assurance, openedWallMs } = facts;
  if (!audit.ready) return facts.missing === undefined ? audit : without(audit, facts, facts.missing);
  if (facts.isSpoiled) return unchecked(audit, facts, "the blob store has lost what it takes to repeat it");
  const unable = audit.tasks.filter(({ role, isImpossible }) => role === "audit" && isImpossible);
  if (unable.length >= impossibleFor) return without(audit, facts, unrepeatable(audit));
  const done = audit.tasks.filter(({ role, result }) => role === "audit" && result !== undefined);
  const right = done.length === 0 ? undefined : rightResult(audit.stated, done);
  const agreeing = done.filter(({ result }) => result === right).length;
  const wanted = strangersWanted(facts, done.length === 0 ? 0 : done.length - agreeing);
  const isTrusted = done.some(({ trusted }) => trusted);
  if (right !== undefined && (isTrusted || (assurance !== "proven" && agreeing >= wanted))) {
    const [judge] = facts.again && !isTrusted ? facts.candidates(involvedIn(audit, nowWallMs), true) : [];
    if (judge !== undefined && !audit.tasks.some(isUnderWay))
      return withTask(audit, { ...judge, role: "audit", sinceWallMs: nowWallMs });
    return facts.again && audit.tasks.some((task) => task.trusted && isUnderWay(task))
      ? audit
      : concluded(audit, right, done, nowWallMs);
  }
  const isUndecided = done.length > 0 && right === undefined;
  const underWay = audit.tasks.filter(isUnderWay).length;
  if (isUndecided ? underWay > 0 : underWay + agreeing >= wanted && underWay > 0) return audit;
  const [next] = facts.candidates(involvedIn(audit, nowWallMs), assurance === "proven");
  if (next !== undefined) return withTask(audit, { ...next, role: "audit", sinceWallMs: nowWallMs });
  // Two that contradict each other wait for a third, however long that takes.
  if (done.length > 0 || audit.stated.length > 1 || assurance !== "sampled") return audit;
  if (since(openedWallMs, nowWallMs) < nobodyMs) return audit;
  return unchecked(audit, facts, "no machine of another owner could repeat it");
}

/** Where several are asked for, each that contradicts them takes one more: else a liar's few friends would outvote the rest. */
function strangersWanted({ assurance, strangers }: AuditFacts, contradicting: number): number {
  return assurance === "checked" && strangers > 1 ? strangers + contradicting : 1;
}

/** Nobody can repeat it, because somebody has not stored what it takes. */
function without(audit: AuditRecord, facts: AuditFacts, { withheld, forgotten }: Missing): AuditRecord {
  const reason = "a sender has not stored what this VNode was sent";
  const accused = withheld.map(
    ({ pnode, story }): Accused => ({ pnode, of: "delivery", result: "", after: "", verdict: "withholding", story }),
  );
  const lapses = [...withheld, ...forgotten].map(({ pnode, vnode }) => ({ pnode, vnode }));
  // A friend who is here and stores nothing would otherwise hide a lie from whoever draws it.
  const kind = facts.assurance === "sampled" && lapses.length === 0 ? "unchecked" : "lost";
  const outcome: AuditOutcome = { kind, by: "nobody", reason, result: "", wallMs: facts.nowWallMs, lapses };
  return { ...audit, outcome, accused: [...audit.accused, ...accused] };
}

function unrepeatable({ stated, tasks }: AuditRecord): Missing {
  const { gaveUp = "" } = tasks.findLast(({ isImpossible }) => isImpossible) ?? {};
  const withheld = stated.map(({ pnode, statement: { vnode } }) => ({
    ...{ pnode, vnode: vnode as VNodeId },
    story: `nobody can repeat VNode ${vnode} from the messages that it listed: ${gaveUp}`,
  }));
  return { withheld, forgotten: [] };
}

/** A trusted machine's result, or one that two owners came to and more than any other. */
function rightResult(stated: readonly Stated[], done: readonly AuditTask[]): string | undefined {
  const trusted = done.find((task) => task.trusted);
  if (trusted !== undefined) return trusted.result;
  const votes = new Map<string, Set<PNodeId>>();
  const vote = (pnode: PNodeId, result: string) => votes.set(result, (votes.get(result) ?? new Set()).add(pnode));
  for (const { pnode, statement } of stated) vote(pnode, resultOf(statement));
  for (const { pnode, result = "" } of done) vote(pnode, result);
  const [most, second] = [...votes]
    .map(([result, by]) => ({ result, count: by.size }))
    .sort((a, b) => b.count - a.count);
  return most !== undefined && most.count >= 2 && most.count > (second?.count ?? 0) ? most.result : undefined;
}

function concluded(audit: AuditRecord, right: string, done: readonly AuditTask[], wallMs: number): AuditRecord {
  const wrong = audit.stated.filter(({ statement }) => resultOf(statement) !== right);
  const accused: Accused[] = [
    ...wrong.map(({ pnode, statement }) => ({
      ...{ pnode, of: "statement" as const, result: resultOf(statement) },
      after: statement.afterBytes > 0 ? statement.after : "",
    })),
    ...done
      .filter(({ result }) => result !== right)
      .map(({ pnode, result = "" }) => ({ pnode, of: "audit" as const, result, after: "" })),
  ];
  const by = done.some(({ trusted, result }) => trusted && result === right) ? "trusted" : "strangers";
  const outcome: AuditOutcome = {
    ...{ kind: wrong.length > 0 ? "wrong" : "right", by, result: right, wallMs },
    reason: wrong.length > 0 ? "whoever repeats it comes to something else" : "",
  };
  return { ...audit, outcome, accused };
}

/** Where everything is to be checked it is computed again instead. */
function unchecked(audit: AuditRecord, { nowWallMs, assurance }: AuditFacts, reason: string): AuditRecord {
  const kind = assurance === "sampled" ? "unchecked" : "lost";
  return { ...audit, outcome: { kind, by: "nobody", reason, result: "", wallMs: nowWallMs } };
}

/** Finds out why somebody was wrong. */
function judging(audit: AuditRecord, facts: AuditFacts): AuditRecord {
  const open = audit.accused.findIndex(({ verdict }) => verdict === undefined);
  if (open < 0) return audit;
  const accused = audit.accused[open] as Accused;
  const judge = (verdict: FaultKind | "cleared", story: string): AuditRecord => ({
    ...audit,
    accused: audit.accused.with(open, { ...accused, verdict, story }),
  });
  if (!facts.isOfClass(accused.pnode)) return judge("class", "it belongs to another numerics class by now");
  const repeat = audit.tasks.find(({ role, pnode }) => role === "repeat" && pnode === accused.pnode);
  if (repeat === undefined) {
    if (!facts.isHere(accused.pnode))
      return judge("silence", "it was gone before it could be asked to repeat its work");
    const { pnode } = accused;
    return withTask(audit, { pnode, trusted: false, role: "repeat", sinceWallMs: facts.nowWallMs });
  }
  if (facts.isSpoiled) return judge("cleared", "the blob store has lost what it takes to find out why it was wrong");
  if (repeat.gaveUp !== undefined) return judge("silence", `asked to repeat its work, it ${repeat.gaveUp}`);
  if (repeat.result === undefined) return audit;
  if (repeat.result !== accused.result)
    return judge("hardware", "asked to repeat its work, it came to something else: its memory or processor errs");
  const against = accused.after || (repeat.after ?? "");
  if (against === "") return judge("class", "it comes to other bits than the rest, again and again");
  return measuring(audit, { ...accused, after: against }, facts, judge);
}

function measuring(
  audit: AuditRecord,
  { after: against, result }: Accused,
  facts: AuditFacts,
  judge: (verdict: FaultKind | "cleared", story: string) => AuditRecord,
): AuditRecord {
  const tasks = audit.tasks.filter((task) => task.role === "measure" && task.against === against);
  const measured = tasks.find((task) => task.result !== undefined);
  if (measured === undefined) {
    if (tasks.some(isUnderWay)) return audit;
    const [next] = facts.candidates(involvedIn(audit, facts.nowWallMs), false);
    // Those who repeated it already know the result; whoever is trusted among them may measure.
    const known = audit.tasks.find(({ role, pnode, result: found }) => {
      const isFree = !tasks.some((task) => task.pnode === pnode);
      return role === "audit" && found === audit.outcome?.result && isFree && facts.isHere(pnode);
    });
    const chosen = next ?? known;
    if (chosen === undefined) return judge("lie", "it insists on a result that nobody else comes to");
    const { pnode, trusted } = chosen;
    return withTask(audit, { pnode, trusted, role: "measure", against, sinceWallMs: facts.nowWallMs });
  }
  if (measured.result === result) return judge("cleared", "two referees disagree: the numerics class itself is broken");
  const distance = measured.distance ?? -1;
  if (distance >= 0 && distance < distanceOfRounding)
    return judge(
      "class",
      `it is off by ${distance.toExponential(1)} of what the interval changed: it rounds otherwise`,
    );
  const far = distance < 0 ? "" : `, off by ${distance.toPrecision(2)} times what the interval changed`;
  return judge("lie", `it insists on a result that nobody else comes to${far}`);
}

export function isUnderWay({ result, gaveUp }: AuditTask): boolean {
  return result === undefined && gaveUp === undefined;
}

/** Whoever has stated, repeated or been asked; one that could not may be asked again after a while. */
export function involvedIn({ stated, tasks }: AuditRecord, nowWallMs: number): Set<PNodeId> {
  const asked = tasks.filter(
    ({ gaveUp, sinceWallMs }) => gaveUp === undefined || since(sinceWallMs, nowWallMs) < askAgainMs,
  );
  return new Set([...stated.map(({ pnode }) => pnode), ...asked.map(({ pnode }) => pnode)]);
}

function withTask(audit: AuditRecord, task: AuditTask): AuditRecord {
  const { pnode, role, trusted, sinceWallMs, against } = task;
  const others = audit.tasks.filter((one) => one.pnode !== pnode || one.role !== role || one.gaveUp === undefined);
  return {
    ...audit,
    tasks: [...others, { pnode, role, trusted, sinceWallMs, ...(against === undefined ? {} : { against }) }],
  };
}

/** A clock that was set back would otherwise never come to the end of a wait. */
function since(thenWallMs: number, nowWallMs: number): number {
  return Math.abs(nowWallMs - thenWallMs);
}
