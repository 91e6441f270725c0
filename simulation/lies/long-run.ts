// Thousands of checkpoint intervals of one session on a hundred machines of which some lie, in a moment: whatever decides (who is drawn, who
// checks, what an audit comes to, what follows for standings, how far a session goes back, what is final) is the production's; what
// computes is one bit for each VNode and interval: right or a lie. For figures that worlds with whole machines are too short for.

import { sha256 } from "../../src/core/hash.ts";
import type { PNodeId, SessionId, Sha256, VNodeId } from "../../src/core/ids.ts";
import type {
  AuditRecord,
  AuditTask,
  IntervalRecord,
  StandingRecord,
} from "../../src/orchestrator/records/checking.ts";
import type { SessionRecord } from "../../src/orchestrator/records/sessions.ts";
import type { VNodeRecords } from "../../src/orchestrator/records/workloads.ts";
import { type AuditFacts, isUnderWay } from "../../src/orchestrator/trust/asking.ts";
import { advanced, isClosed } from "../../src/orchestrator/trust/disputes.ts";
import { finalOf } from "../../src/orchestrator/trust/finality.ts";
import { alarmAt, drawnIn } from "../../src/orchestrator/trust/intervals.ts";
import { byLot, drawContent, isDrawn, isDrawnAgain } from "../../src/orchestrator/trust/lottery.ts";
import { alarmed, lineBefore } from "../../src/orchestrator/trust/repair.ts";
import {
  auditRate,
  isOut,
  levelOf,
  standingAtFirst,
  withFault,
  withRight,
} from "../../src/orchestrator/trust/standing.ts";
import { mustBeUndone } from "../../src/orchestrator/trust/verdicts.ts";
import { resultOf, type Statement } from "../../src/trust/statement.ts";
import { SeededChance } from "../world/chance.ts";

export interface LongRunSettings {
  readonly seed: number;
  readonly intervals: number;
  /** Of a hundred machines. */
  readonly liars: number;
  /** Own intervals that a liar computes rightly before its first lie. */
  readonly honestFor: number;
  /** Share of its intervals in which it lies from then on. */
  readonly lieShare: number;
  readonly liesMost?: number;
  /** Liars who check each other find everything right. */
  readonly cartel: boolean;
}

export interface LongRunFigures {
  /** For each liar that was found: intervals of the session from its first lie until it was out. */
  readonly untilOut: readonly number[];
  /** Those who lied and were not found. */
  readonly stillIn: number;
  readonly honestOut: number;
  /** Intervals of single VNodes: final ones, those of them that are lies, all that were computed, and repetitions. */
  readonly final: number;
  readonly wrong: number;
  readonly computed: number;
  readonly repeated: number;
}

const machines = 100;
const trustedMachines = 5;
const vnodes = Array.from({ length: 24 }, (_, at) => `v${at}` as VNodeId);
/** Of a VNode and interval: its owner leaves. */
const churn = 0.01;
const newcomersShare = 0.3;
const session = "s" as SessionId;
const numericsClass = "c";

export function longRun(settings: LongRunSettings): LongRunFigures {
  const run = new LongRun(settings);
  while (!run.isOver) run.tick();
  return run.figures;
}

type Word = "right" | "lie";

class LongRun {
  readonly #settings: LongRunSettings;
  readonly #chance: SeededChance;
  readonly #standings = new Map<PNodeId, StandingRecord>();
  readonly #liars = new Set<PNodeId>();
  readonly #owners = new Map<VNodeId, PNodeId>();
  readonly #own = new Map<PNodeId, number>();
  readonly #lies = new Map<PNodeId, number>();
  readonly #firstLie = new Map<PNodeId, number>();
  readonly #untilOut: number[] = [];
  #intervals: IntervalRecord[] = [];
  /** By the interval's end: whose VNodes lied. */
  readonly #liedAt = new Map<number, Set<VNodeId>>();
  #record: SessionRecord;
  #ticks = 0;
  #final = 0;
  #wrong = 0;
  #computed = 0;
  #repeated = 0;

  constructor(settings: LongRunSettings) {
    this.#settings = settings;
    this.#chance = new SeededChance(settings.seed, "long run");
    for (let at = 0; at < machines; at++) {
      const pnode = `p${at}` as PNodeId;
      const isTrusted = at >= machines - trustedMachines;
      this.#standings.set(pnode, { ...standingAtFirst(pnode), ...(isTrusted ? { trusted: true } : {}) });
      if (at < settings.liars) this.#liars.add(pnode);
    }
    const policy = { assurance: "sampled", checkpointEvery: 1 };
    const identity = { steps: settings.intervals };
    this.#record = {
      id: session,
      policy,
      identity,
      vnodes,
      line: 0,
      turn: 0,
      numericsClass,
    } as unknown as SessionRecord;
    for (const vnode of vnodes) this.#place(vnode);
  }

  get isOver(): boolean {
    return (this.#record.final ?? 0) >= this.#settings.intervals;
  }

  get figures(): LongRunFigures {
    const out = (pnode: PNodeId) => this.#standings.get(pnode)?.barred !== undefined;
    return {
      untilOut: this.#untilOut,
      stillIn: [...this.#firstLie.keys()].filter((pnode) => !out(pnode)).length,
      honestOut: [...this.#standings.keys()].filter((pnode) => out(pnode) && !this.#liars.has(pnode)).length,
      ...{ final: this.#final, wrong: this.#wrong, computed: this.#computed, repeated: this.#repeated },
    };
  }

  /** The session takes one interval, and all checks one step. */
  tick(): void {
    this.#ticks++;
    for (const vnode of vnodes) if (this.#chance.happens(churn)) this.#place(vnode);
    if (this.#record.line < this.#settings.intervals) this.#compute();
    for (const { to } of [...this.#intervals]) {
      const interval = this.#intervals.find((one) => one.to === to);
      // The session may have gone back before it.
      if (interval !== undefined) this.#tend(interval);
    }
    const step = finalOf(this.#record, this.#intervals, () => true);
    for (const interval of step.settled) this.#close(interval);
    this.#record = { ...this.#record, final: step.final, certificate: step.certificate };
    this.#intervals = this.#intervals.filter(({ to }) => to > step.final);
  }

  #change(pnode: PNodeId, change: (standing: StandingRecord) => StandingRecord): void {
    this.#standings.set(pnode, change(this.#standings.get(pnode) as StandingRecord));
  }

  /** Somebody who hosts nothing and is not barred; few that nobody knows. */
  #place(vnode: VNodeId): void {
    this.#owners.delete(vnode);
    const busy = new Set(this.#owners.values());
    const levels = new Map(Array.from(this.#standings, ([pnode, standing]) => [pnode, levelOf(standing)]));
    const newcomers = [...busy].filter((pnode) => levels.get(pnode) === "newcomer").length;
    const free = [...levels].filter(
      ([pnode, level]) => !busy.has(pnode) && level !== "quarantined" && level !== "banned",
    );
    const proven = free.filter(([, level]) => level !== "newcomer");
    const from = newcomers >= newcomersShare * vnodes.length && proven.length > 0 ? proven : free;
    this.#owners.set(vnode, this.#chance.pick(from)[0]);
  }

  #compute(): void {
    const { turn = 0, line: from } = this.#record;
    const [to, total] = [from + 1, this.#settings.intervals];
    const lied = new Set(vnodes.filter((vnode) => this.#isLie(this.#owners.get(vnode) as PNodeId)));
    this.#liedAt.set(to, lied);
    this.#computed += vnodes.length;
    const statements = sha256([...lied].join());
    const draw = sha256(drawContent({ session: `${session}${this.#settings.seed}`, turn, from, to, statements }));
    const audits: Record<string, AuditRecord> = {};
    for (const [vnode, pnode] of this.#owners) {
      const standing = this.#standings.get(pnode) as StandingRecord;
      const rate = auditRate(standing, alarmAt(this.#record, to));
      if (!isDrawn(draw, vnode, rate, "sampled", total - to, total)) continue;
      const stated = [{ pnode, turn, statement: statementOf(lied.has(vnode) ? "lie" : "right") }];
      audits[vnode] = { stated, tasks: [], ready: true, accused: [] };
    }
    const owners = Object.fromEntries(this.#owners);
    this.#intervals.push({
      ...{ session, from, to, turn, statements, root: "", draw, owners, audits, openedWallMs: this.#ticks },
    });
    this.#record = { ...this.#record, line: to, lineBefore: from, drawn: drawnIn(this.#intervals) };
  }

  #isLie(pnode: PNodeId): boolean {
    const { honestFor, lieShare, liesMost = Number.POSITIVE_INFINITY } = this.#settings;
    if (!this.#liars.has(pnode)) return false;
    const [own, lies] = [this.#own.get(pnode) ?? 0, this.#lies.get(pnode) ?? 0];
    this.#own.set(pnode, own + 1);
    if (own < honestFor || lies >= liesMost || !this.#chance.happens(lieShare)) return false;
    this.#lies.set(pnode, lies + 1);
    if (!this.#firstLie.has(pnode)) this.#firstLie.set(pnode, this.#ticks);
    return true;
  }

  #tend(interval: IntervalRecord): void {
    const audits = { ...interval.audits };
    for (const [vnode, before] of Object.entries(interval.audits)) {
      if (isClosed(before)) continue;
      // What was asked for before this step is answered by now.
      const answered = { ...before, tasks: before.tasks.map((task) => this.#answered(task, before, interval, vnode)) };
      const after = advanced(answered, this.#facts(interval, vnode as VNodeId));
      audits[vnode] = after;
      if (before.outcome !== undefined || after.outcome?.kind !== "right") continue;
      for (const { pnode } of after.stated) this.#change(pnode, (standing) => withRight(standing, 1));
    }
    const now = { ...interval, audits };
    this.#intervals = this.#intervals.map((one) => (one.to === now.to ? now : one));
    if (mustBeUndone(now)) this.#undo(now);
  }

  #answered(task: AuditTask, { stated }: AuditRecord, { to }: IntervalRecord, vnode: string): AuditTask {
    if (!isUnderWay(task) || task.sinceWallMs >= this.#ticks) return task;
    this.#repeated++;
    const isWrong = this.#liedAt.get(to)?.has(vnode as VNodeId) === true;
    const isOwner = stated.some(({ pnode }) => pnode === task.pnode);
    const isFriend = this.#settings.cartel && this.#liars.has(task.pnode);
    const word = isWrong && (isOwner || isFriend) ? "lie" : "right";
    return { ...task, result: results[word], after: sha256(word), distance: isWrong ? 1 : 0 };
  }

  #facts({ draw, owners, openedWallMs }: IntervalRecord, vnode: VNodeId): AuditFacts {
    return {
      ...{
        nowWallMs: this.#ticks,
        openedWallMs,
        assurance: "sampled",
        strangers: 1,
        again: isDrawnAgain(draw, vnode),
        patienceMs: 1_000,
        waitedMs: (sinceWallMs: number) => this.#ticks - sinceWallMs,
      },
      ...{ missing: undefined, isSpoiled: false },
      candidates: (except, trustedOnly) => this.#candidates(draw, vnode, owners, except, trustedOnly),
      isHere: () => true,
      isUnreadable: () => false,
      isOfClass: () => true,
      isOut: (pnode) => isOut(this.#standings.get(pnode) as StandingRecord, numericsClass),
    };
  }

  /** As trust/auditors.ts: nobody who is a neighbour, those without work first. */
  #candidates(
    draw: string,
    vnode: VNodeId,
    owners: Readonly<Record<string, PNodeId>>,
    except: ReadonlySet<PNodeId>,
    trustedOnly: boolean,
  ) {
    const at = vnodes.indexOf(vnode);
    const near = new Set([at - 1, at, at + 1].map((one) => owners[vnodes[one] ?? ""]));
    const all = Array.from(this.#standings, ([pnode, standing]) => ({ pnode, level: levelOf(standing) }));
    const able = all.filter(({ pnode, level }) => {
      if (except.has(pnode) || level === "quarantined" || level === "banned") return false;
      return level === "trusted" || !near.has(pnode);
    });
    const best = able.filter(({ level }) => level === "trusted" || (level === "known" && !trustedOnly));
    const chosen = best.length > 0 || trustedOnly ? best : able;
    const hosts = new Set(this.#owners.values());
    const tasks = new Map<PNodeId, number>();
    for (const { audits } of this.#intervals)
      for (const audit of Object.values(audits))
        for (const task of audit.tasks) if (isUnderWay(task)) tasks.set(task.pnode, (tasks.get(task.pnode) ?? 0) + 1);
    const work = (pnode: PNodeId) => (tasks.get(pnode) ?? 0) * 1_000 + (hosts.has(pnode) ? 1 : 0);
    return byLot(
      draw,
      vnode,
      chosen.map(({ pnode, level }) => ({ pnode, trusted: level === "trusted" })),
    ).sort((a, b) => work(a.pnode) - work(b.pnode) || Number(b.trusted) - Number(a.trusted));
  }

  /** Those who were wrong are out, and the session goes back to before it. */
  #undo(interval: IntervalRecord): void {
    const accused = Object.values(interval.audits).flatMap((audit) => audit.accused);
    const suspects = new Set<PNodeId>();
    for (const { pnode, verdict, story = "" } of accused) {
      if (verdict === undefined || verdict === "cleared") continue;
      const fault = { wallMs: this.#ticks, kind: verdict, after: 0, story, command: "" };
      this.#change(pnode, (standing) => withFault(standing, fault, numericsClass));
      if (verdict !== "lie") continue;
      if (!suspects.has(pnode) && this.#firstLie.has(pnode))
        this.#untilOut.push(this.#ticks - (this.#firstLie.get(pnode) as number));
      suspects.add(pnode);
    }
    const { final = 0, line, turn = 0 } = this.#record;
    const steps = Array.from({ length: line - final + 1 }, (_, at) => [String(final + at), {}]);
    const kept = { durable: Object.fromEntries(steps) };
    const records = { get: () => kept } as unknown as VNodeRecords;
    const back = lineBefore(this.#record, records, this.#intervals, interval.from, suspects);
    this.#intervals = this.#intervals.filter(({ to }) => to <= back);
    const drawn = drawnIn(this.#intervals);
    const convicts = Array.from(suspects, (pnode) => ({ pnode, bond: false }));
    const alarm = alarmed(this.#record, { line: back, convicts });
    this.#record = { ...this.#record, line: back, lineBefore: back, turn: turn + 1, ...alarm, drawn };
    for (const [vnode, pnode] of this.#owners) if (suspects.has(pnode)) this.#place(vnode);
  }

  #close({ to, owners, audits }: IntervalRecord): void {
    const lied = this.#liedAt.get(to) as Set<VNodeId>;
    this.#final += vnodes.length;
    this.#wrong += lied.size;
    for (const [vnode, owner] of Object.entries(owners))
      if (audits[vnode]?.outcome?.kind !== "right") this.#change(owner, (standing) => withRight(standing, 1));
  }
}

const statements = new Map((["right", "lie"] as const).map((word) => [word, stated(word)]));
const results = { right: resultOf(statementOf("right")), lie: resultOf(statementOf("lie")) };

function statementOf(word: Word): Statement {
  return statements.get(word) as Statement;
}

function stated(word: Word): Statement {
  const after: Sha256 = sha256(word);
  return {
    ...{ session, vnode: "", from: 0, to: 1, life: "l", before: "", after, afterBytes: 1 },
    ...{ inputs: after, inputsBytes: 1, outputs: after, outputsBytes: 1, edges: {} },
    ...{ publicKey: "", signature: "" },
  };
}
