// One audit from its draw to its outcome. Pure: what is known in, what to do next out. Bits decide: a trusted machine's, or those of
// two owners against one. Whoever says that nobody can repeat what was listed is believed only by others' word for it, and answers for
// it where somebody could. Why somebody was wrong is found out in reasons.ts.

import type { PNodeId, VNodeId } from "../../core/ids.ts";
import { resultOf } from "../../trust/statement.ts";
import type { Accused, AuditOutcome, AuditRecord, AuditTask, Stated } from "../records/checking.ts";
import { type AuditFacts, isAway, isUnderWay, nextOf, ownerLeft, unaskedOf, withTask } from "./asking.ts";
import { judging } from "./reasons.ts";
import { areAtOdds } from "./seams.ts";
import type { Missing } from "./silence.ts";

/** So many say that what was listed does not make up the interval, and the blob store has lost nothing: then one more decides. */
const impossibleFor = 3;
/** Where only trusted machines are asked, and all that there are say so again and again for so long. */
const impossibleMs = 600_000;
/** A session that is only sampled does not wait longer for somebody to come who could check. */
const nobodyMs = 60_000;

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

function giveUpLost(audit: AuditRecord, facts: AuditFacts): AuditRecord {
  const { waitedMs, patienceMs, isHere } = facts;
  // Anybody else can be asked in place of an auditor; whoever has to answer for itself is waited for.
  const isGone = ({ role, pnode, sinceWallMs }: AuditTask) =>
    role === "repeat" ? isAway(pnode, sinceWallMs, facts) : !isHere(pnode);
  const isLost = (task: AuditTask) => isUnderWay(task) && (isGone(task) || waitedMs(task.sinceWallMs) > patienceMs);
  if (!audit.tasks.some(isLost)) return audit;
  return { ...audit, tasks: audit.tasks.map((task) => (isLost(task) ? { ...task, gaveUp: "did not answer" } : task)) };
}

/** Finds out what is right. */
function checking(audit: AuditRecord, facts: AuditFacts): AuditRecord {
  const { nowWallMs, waitedMs, assurance, openedWallMs, isOut } = facts;
  if (!audit.ready) return facts.missing === undefined ? audit : without(audit, facts, facts.missing);
  if (facts.isSpoiled) return unchecked(audit, facts, "the blob store has lost what it takes to repeat it");
  // Whoever has been found wrong elsewhere since has no say any more: nobody would have to come in order to outweigh it.
  const done = audit.tasks.filter((task) => task.role === "audit" && task.result !== undefined && !isOut(task.pnode));
  const belief = done.length === 0 ? disbelief : believed(audit.stated, done);
  const { right, supporters } = belief;
  const agreeing = done.filter(({ result }) => result === right).length;
  const wanted = strangersWanted(facts, done.length === 0 ? 0 : done.length - agreeing);
  const isTrusted = done.some(({ trusted }) => trusted);
  const heeded = heeding(audit, facts, belief);
  if (heeded !== undefined) return heeded;
  const isAgreed = assurance !== "proven" && agreeing >= wanted && supporters > strangersAsked(facts);
  if (right !== undefined && (isTrusted || isAgreed)) {
    const judge = facts.again && !isTrusted ? nextOf(audit, facts, true) : undefined;
    if (judge !== undefined && !audit.tasks.some(isUnderWay))
      return withTask(audit, { ...judge, role: "audit", sinceWallMs: nowWallMs });
    return facts.again && audit.tasks.some((task) => task.trusted && isUnderWay(task))
      ? audit
      : concluded(audit, belief, right, done, nowWallMs);
  }
  const isUndecided = done.length > 0 && right === undefined;
  const underWay = audit.tasks.filter(isUnderWay).length;
  if (isUndecided ? underWay > 0 : underWay + agreeing >= wanted && underWay > 0) return audit;
  const own = audit.stated.filter(({ apart }) => !apart);
  const next = nextOf(audit, facts, assurance === "proven") ?? (areAtOdds(own) ? undefined : ownerLeft(audit, facts));
  if (next !== undefined) return withTask(audit, { ...next, role: "audit", sinceWallMs: nowWallMs });
  // Two that contradict each other wait for a third, however long that takes; several owners who all come to the same do not.
  if (done.length > 0 || areAtOdds(own) || assurance !== "sampled") return audit;
  if (waitedMs(openedWallMs) < nobodyMs) return audit;
  return unchecked(audit, facts, "no machine of another owner could repeat it");
}

/**
 * So many of one mind may be friends, and prove nothing alone. An owner and so many confirm a result; against an owner it takes one more: else they could
 * send honest owners away, one after the other, until nobody is left who could check.
 */
function strangersAsked({ assurance, strangers }: AuditFacts): number {
  return assurance === "checked" ? strangers : 1;
}

/** Where several are asked for, each that contradicts them takes one more: else a liar's few friends would outvote the rest. */
function strangersWanted(facts: AuditFacts, contradicting: number): number {
  const asked = strangersAsked(facts);
  return asked > 1 ? asked + contradicting : asked;
}

/** Nobody can repeat it, because somebody has not stored what it takes. */
function without(audit: AuditRecord, facts: AuditFacts, { withheld, forgotten, wasLetGo }: Missing): AuditRecord {
  const reason = wasLetGo
    ? "the session rested before everything was stored that this VNode was sent"
    : "a sender has not stored what this VNode was sent";
  const accused = withheld.map(
    ({ pnode, story }): Accused => ({ pnode, of: "delivery", result: "", after: "", verdict: "withholding", story }),
  );
  const lapses = [...withheld, ...forgotten].map(({ pnode, vnode }) => ({ pnode, vnode }));
  // A friend who is here and stores nothing would otherwise hide a lie from whoever draws it.
  const isNobodysAffair = lapses.length === 0 && !wasLetGo;
  const kind = facts.assurance === "sampled" && isNobodysAffair ? "unchecked" : "lost";
  const outcome: AuditOutcome = { kind, by: "nobody", reason, result: "", wallMs: facts.nowWallMs, lapses };
  return { ...audit, outcome, accused: [...audit.accused, ...accused] };
}

function unrepeatable({ stated, tasks }: AuditRecord): Missing {
  const { gaveUp = "" } = tasks.findLast(({ isImpossible }) => isImpossible) ?? {};
  const own = stated.filter(({ apart }) => !apart);
  const withheld = own.map(({ pnode, statement: { vnode } }) => ({
    ...{ pnode, vnode: vnode as VNodeId },
    story: `nobody can repeat VNode ${vnode} from the messages that it listed: ${gaveUp}`,
  }));
  return { withheld, forgotten: [] };
}

/** The result that is right, and how many owners came to what most came to. */
interface Belief {
  readonly right: string | undefined;
  readonly supporters: number;
}

/** Nobody has repeated it: what its owner states is nobody's word but its own. */
const disbelief: Belief = { right: undefined, supporters: 0 };

/** A trusted machine's result, or one that two owners came to and more than any other. */
function believed(stated: readonly Stated[], done: readonly AuditTask[]): Belief {
  const trusted = done.find((task) => task.trusted);
  if (trusted !== undefined) return { right: trusted.result, supporters: Number.POSITIVE_INFINITY };
  const votes = new Map<string, Set<PNodeId>>();
  const vote = (pnode: PNodeId, result: string) => votes.set(result, (votes.get(result) ?? new Set()).add(pnode));
  for (const { pnode, statement } of stated) vote(pnode, resultOf(statement));
  for (const { pnode, result = "" } of done) vote(pnode, result);
  const [most, second] = [...votes]
    .map(([result, by]) => ({ result, count: by.size }))
    .sort((a, b) => b.count - a.count);
  const supporters = most?.count ?? 0;
  return { right: supporters >= 2 && supporters > (second?.count ?? 0) ? most?.result : undefined, supporters };
}

function saysImpossible({ role, isImpossible }: AuditTask): boolean {
  return role === "audit" && isImpossible === true;
}

/** What follows from those who say that nobody can repeat it; undefined where they are few, or outvoted by those who could. */
function heeding(audit: AuditRecord, facts: AuditFacts, { right, supporters }: Belief): AuditRecord | undefined {
  const { nowWallMs, waitedMs, openedWallMs, assurance } = facts;
  const unable = audit.tasks.filter(saysImpossible);
  if (unable.length === 0 || supporters > unable.length) return undefined;
  const isTrusted = unable.some(({ trusted }) => trusted);
  const enough = unable.length >= impossibleFor;
  if (right === undefined && enough && (isTrusted || unable.length > impossibleFor))
    return without(audit, facts, unrepeatable(audit));
  // Who waits for a trusted machine's word, and has only that, would wait for ever.
  const isLate = assurance !== "sampled" && isTrusted && waitedMs(openedWallMs) >= impossibleMs;
  if (right === undefined && !enough && !isLate) return undefined;
  if (audit.tasks.some(isUnderWay)) return audit;
  const next = unaskedOf(audit, facts, assurance === "proven");
  if (next !== undefined) return withTask(audit, { ...next, role: "audit", sinceWallMs: nowWallMs });
  return (enough || isLate) && unable.length > supporters ? without(audit, facts, unrepeatable(audit)) : undefined;
}

function concluded(
  audit: AuditRecord,
  { supporters }: Belief,
  right: string,
  done: readonly AuditTask[],
  wallMs: number,
): AuditRecord {
  const unable = audit.tasks.filter(saysImpossible);
  const wrong = audit.stated.filter(({ statement, apart }) => !apart && resultOf(statement) !== right);
  const accused: Accused[] = [
    ...wrong.map(({ pnode, statement }) => ({
      ...{ pnode, of: "statement" as const, result: resultOf(statement) },
      after: statement.afterBytes > 0 ? statement.after : "",
    })),
    ...done
      .filter(({ result }) => result !== right)
      .map(({ pnode, result = "" }) => ({ pnode, of: "audit" as const, result, after: "" })),
    ...(supporters > unable.length ? unable.map(({ pnode }) => inError(pnode)) : []),
  ];
  const by = done.some(({ trusted, result }) => trusted && result === right) ? "trusted" : "strangers";
  const outcome: AuditOutcome = {
    ...{ kind: wrong.length > 0 ? "wrong" : "right", by, result: right, wallMs },
    reason: wrong.length > 0 ? "whoever repeats it comes to something else" : "",
  };
  return { ...audit, outcome, accused };
}

/** Who errs once in this loses its standing's start: a blob may come damaged. Who does so again repeats nothing for anybody. */
function inError(pnode: PNodeId): Accused {
  const story = "it says that nobody can repeat what others have repeated: its memory errs, or it never tried";
  return { pnode, of: "audit", result: "", after: "", verdict: "hardware", story };
}

/** Where everything is to be checked it is computed again instead. */
function unchecked(audit: AuditRecord, { nowWallMs, assurance }: AuditFacts, reason: string): AuditRecord {
  const kind = assurance === "sampled" ? "unchecked" : "lost";
  return { ...audit, outcome: { kind, by: "nobody", reason, result: "", wallMs: nowWallMs } };
}
