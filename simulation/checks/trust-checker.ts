// What must hold of sessions that are checked and of machines' standings, however many lie: the line never passes a seam that does not
// fit; draws can be recomputed and leave nobody out; no auditor hears what should come out; nothing becomes final over an open audit; nobody who is
// honest is called a liar. Knows the records' form and the rules in words, and nothing of the code that applies them.

import { sha256 } from "../../src/core/hash.ts";
import type { PNodeId, SessionId } from "../../src/core/ids.ts";
import type { AuditRecord, IntervalRecord, StandingRecord } from "../../src/orchestrator/records/checking.ts";
import type { PNodeRecord } from "../../src/orchestrator/records/machines.ts";
import type { SessionRecord } from "../../src/orchestrator/records/sessions.ts";
import type { VNodeRecord } from "../../src/orchestrator/records/vnodes.ts";
import { drawContent, lot } from "../../src/orchestrator/trust/lottery.ts";
import type { Assignments } from "../../src/protocol/gen/dcnr/v1/pnode_pb.ts";
import { planOf, type RunSettings } from "../draw.ts";
import { type Behaviour, honest } from "../lies/byzantine.ts";
import type { AcceptedWrite } from "../world/store.ts";
import { unitsForOneOwner } from "./crowd-limit.ts";
import type { Records } from "./records.ts";
import type { TrustCounter, TrustFigures } from "./trust-figures.ts";

type Wrong = (atMs: number, message: string) => void;

/** Half of what even trusted machines are checked at. */
const drawnForSure = 0.05;
const newcomersRights = 10;
/** Newcomers are checked each time: by then one of them was. */
const misledForSure = 3;

/** What an owner has stated of an interval, as it told an orchestrator. */
export interface ToldStatement {
  readonly session: string;
  readonly vnode: string;
  readonly turn: number;
  readonly to: number;
  readonly edges: Readonly<Record<string, string>>;
}

export class TrustChecker {
  readonly #records: Records;
  readonly #behaviours: ReadonlyMap<string, Behaviour>;
  readonly #wrong: Wrong;
  /** A sender that lives and is honest stores what it is asked for. */
  readonly #isCalm: boolean;
  /** From then on states may have to be computed again that were final; what comes out has to be what was certified. */
  readonly #losesStatesMs: number;
  /** By interval and edge: the roots that each VNode has stated. */
  readonly #edges = new Map<string, Map<string, Set<string>>>();
  readonly #sessions = new Map<string, SessionRecord>();
  /** Whose messages could not be had in the life in which it had sent them. */
  readonly #lapsed = new Set<string>();
  /** Sessions in which work of a machine that lies became final that nobody had repeated. */
  readonly #unseen = new Set<string>();
  /** Nobody is made to start again. */
  readonly #isQuiet: boolean;

  readonly #counter: TrustCounter;
  /** By network: VNodes that share weights; no network here has two tables that are shared. */
  readonly #tied = new Map<string, readonly string[]>();
  /** By network: how many strangers were asked for. */
  readonly #strangers = new Map<string, number>();
  /** By network: how many VNodes each unit has that is placed as a whole. */
  readonly #units = new Map<string, readonly number[]>();
  readonly #vnodesPerPNode: number;

  constructor(records: Records, settings: RunSettings, counter: TrustCounter, wrong: Wrong) {
    const { behaviours = new Map<string, Behaviour>(), plan, sessions, vnodesPerPNode } = settings;
    const { timed } = plan;
    this.#records = records;
    this.#behaviours = behaviours;
    this.#counter = counter;
    this.#vnodesPerPNode = vnodesPerPNode;
    for (const { scenario, policy } of sessions) {
      this.#strangers.set(scenario.name, policy.strangers ?? 1);
      const { edges, vnodes, colocations } = planOf(scenario);
      const together = colocations.map(({ length }) => length);
      const alone = vnodes.length - together.reduce((sum, count) => sum + count, 0);
      this.#units.set(scenario.name, [...together, ...Array.from({ length: alone }, () => 1)]);
      const ties = edges.filter(({ kind }) => kind === "tie");
      this.#tied.set(scenario.name, [...new Set(ties.flatMap(({ from, to }) => [from, to]))].sort());
    }
    const losses = timed.filter(({ fault: { kind } }) => kind === "blob damaged" || kind === "line lost");
    this.#losesStatesMs = Math.min(...losses.map(({ atMs }) => atMs));
    this.#isCalm =
      timed.length === 0 && ![...behaviours.values()].some((one) => one === "withholds" || one === "feigns");
    this.#isQuiet = timed.length === 0;
    this.#wrong = wrong;
  }

  stated({ session, vnode, turn, to, edges }: ToldStatement): void {
    for (const [edge, root] of Object.entries(edges)) {
      const name = `${session} ${turn} ${to} ${edge}`;
      const byVNode = this.#edges.get(name) ?? new Map<string, Set<string>>();
      byVNode.set(vnode, (byVNode.get(vnode) ?? new Set()).add(root));
      this.#edges.set(name, byVNode);
    }
  }

  wrote({ atMs, key, before, after }: AcceptedWrite): void {
    if (after === undefined) return;
    if (key.startsWith("session/")) this.#session(atMs, JSON.parse(after) as SessionRecord);
    if (key.startsWith("vnode/") && this.#isQuiet)
      this.#owners(atMs, before === undefined ? [] : membersOf(before), JSON.parse(after) as VNodeRecord);
    if (key.startsWith("standing/")) this.#counter.standing(JSON.parse(after) as StandingRecord);
    if (key.startsWith("interval/")) this.#interval(atMs, JSON.parse(after) as IntervalRecord);
  }

  #session(atMs: number, record: SessionRecord): void {
    const before = this.#sessions.get(record.id);
    this.#sessions.set(record.id, record);
    if (record.policy.assurance === undefined || before === undefined) return;
    const { id, line, turn = 0, final = 0 } = record;
    if (line > before.line && turn === (before.turn ?? 0))
      for (const [name, byVNode] of this.#edges) {
        const [session, of, to, edge] = name.split(" ");
        if (session !== id || Number(of) !== turn || Number(to) <= before.line || Number(to) > line) continue;
        const [first, second] = byVNode.values();
        if (byVNode.size === 2 && first && second && first.isDisjointFrom(second))
          this.#wrong(atMs, `the line passed step ${to}, though both ends of ${edge} state different messages`);
      }
    if (line < final && atMs < this.#losesStatesMs)
      this.#wrong(atMs, `the session went back to ${line}, though ${final} is final and nothing was lost`);
    if (final <= (before.final ?? 0)) return;
    const passed = this.#records
      .under<IntervalRecord>(`interval/${id}/`)
      .filter(({ to }) => to <= final && to > (before.final ?? 0));
    this.#counter.final(record, passed);
    if (passed.some((one) => this.#isUnseenLie(one))) this.#unseen.add(id);
    for (const { to, audits } of passed)
      for (const [vnode, audit] of Object.entries(audits)) {
        const { outcome, accused } = audit;
        this.#recomputed(atMs, record, `VNode ${vnode} up to step ${to}`, audit);
        const isOpen = outcome === undefined || accused.some(({ verdict }) => verdict === undefined);
        if (isOpen || outcome.kind === "wrong" || outcome.kind === "lost")
          this.#wrong(atMs, `final is ${final}, though VNode ${vnode} up to step ${to} is ${outcome?.kind ?? "open"}`);
      }
  }

  /**
   * Whether what is final there must be right. A session of which only samples are checked does not wait where nobody is here to repeat something: it
   * promises what was repeated, and its certificate says how much that is.
   */
  isSeen(session: string): boolean {
    return !this.#unseen.has(session);
  }

  #isUnseenLie({ session, owners, audits }: IntervalRecord): boolean {
    if (this.#records.session(session)?.policy.assurance !== "sampled") return false;
    const isByNobody = (vnode: string) => (audits[vnode]?.outcome?.by ?? "nobody") === "nobody";
    return Object.entries(owners).some(([vnode, owner]) => this.#behaviours.has(owner) && isByNobody(vnode));
  }

  /** By as many strangers as were asked for, each of another owner, or by somebody who is trusted. */
  #recomputed(
    atMs: number,
    { network, policy }: SessionRecord,
    what: string,
    { tasks, stated, outcome }: AuditRecord,
  ): void {
    if (policy.assurance !== "checked" || outcome?.kind !== "right" || outcome.by === "trusted") return;
    const pnodes = new Map(this.#records.under<PNodeRecord>("pnode/").map(({ id, owner }) => [id, owner]));
    const ownerOf = (pnode: PNodeId) => pnodes.get(pnode) ?? pnode;
    const agreeing = tasks.filter(({ role, result }) => role === "audit" && result === outcome.result);
    const owners = new Set(agreeing.map(({ pnode }) => ownerOf(pnode)));
    for (const { pnode } of stated) owners.delete(ownerOf(pnode));
    const wanted = this.#strangers.get(network) ?? 1;
    if (owners.size < wanted) this.#wrong(atMs, `${what} is final: ${owners.size} of ${wanted} strangers repeated it`);
  }

  /** Whenever one of them gets something: what machines of one owner that have proved nothing host together. */
  #owners(atMs: number, before: readonly string[], { session, members }: VNodeRecord): void {
    if (!members.some(({ pnode }) => this.#behaviours.get(pnode) === "sybil" && !before.includes(pnode))) return;
    const standings = this.#records.under<StandingRecord>("standing/");
    const isFree = (pnode: string) => !standings.some((one) => one.pnode === pnode && one.barred !== undefined);
    const hosts = this.#records
      .under<VNodeRecord>(`vnode/${session}/`)
      .flatMap(({ members }) => members.map(({ pnode }) => pnode as string));
    const sybils = new Set(hosts.filter((pnode) => this.#behaviours.get(pnode) === "sybil" && isFree(pnode)));
    if (sybils.size > 1 && sybils.size > this.#unitsForSybils(session as SessionId))
      this.#wrong(atMs, `${[...sybils].join(", ")} of one owner host VNodes of ${session}`);
  }

  /** By who is here, and who of them keeps room to repeat what others compute: those who are trusted, or known if anybody is. */
  #unitsForSybils(session: SessionId): number {
    const { network = "", policy } = this.#records.session(session) ?? {};
    const here = this.#records
      .under<PNodeRecord>("pnode/")
      .filter(({ status, barred, excluded = [] }) => status === "online" && !barred && excluded.length === 0);
    const isAnyKnown = here.some(({ trust }) => trust !== "untrusted");
    const isKeeping = ({ trust }: PNodeRecord) =>
      policy?.assurance === "proven" ? trust === "trusted" : !isAnyKnown || trust !== "untrusted";
    const repeatedTogether = Math.max(1, this.#tied.get(network)?.length ?? 0);
    const places = (areSybils: boolean) =>
      here
        .filter(({ id }) => (this.#behaviours.get(id) === "sybil") === areSybils)
        .map((one) => ({ vnodes: this.#vnodesPerPNode, kept: isKeeping(one) ? repeatedTogether : 0 }));
    return unitsForOneOwner({
      units: this.#units.get(network) ?? [],
      copies: policy?.replicas ?? 1,
      own: places(true),
      others: places(false),
      needsChecks: policy?.assurance !== "sampled",
    });
  }

  get figures(): TrustFigures {
    return this.#counter.figures;
  }

  #interval(atMs: number, record: IntervalRecord): void {
    this.#counter.interval(record);
    if (record.stuck !== undefined) return;
    const { session, from, to, turn, statements, draw, owners, audits } = record;
    // Whoever went back with its session since lives another life: it may have lost what it had sent before.
    const isSameLife = turn === (this.#records.session(session)?.turn ?? 0);
    if (draw !== sha256(drawContent({ session, turn, from, to, statements })))
      this.#wrong(atMs, `the draw of steps ${from} to ${to} does not follow from what was stated`);
    const assurance = this.#records.session(session)?.policy.assurance;
    for (const [vnode, owner] of Object.entries(owners)) {
      const standing = this.#records.under<StandingRecord>("standing/").find(({ pnode }) => pnode === owner);
      const isNew = (standing?.right ?? 0) < newcomersRights && (standing?.faults.length ?? 0) === 0;
      const isSure = assurance !== "sampled" || isNew || lot(draw, this.#leaderOf(session, vnode)) < drawnForSure;
      if (isSure && audits[vnode] === undefined)
        this.#wrong(atMs, `VNode ${vnode}, steps ${from} to ${to}, should have been drawn`);
      const { reason, lapses } = audits[vnode]?.outcome ?? {};
      if (isSameLife) for (const { pnode } of lapses ?? []) this.#lapsed.add(pnode);
      if (this.#isCalm && lapses !== undefined)
        this.#wrong(atMs, `VNode ${vnode}, steps ${from} to ${to}: ${reason}, though all live and store`);
    }
  }

  /** VNodes that share weights are drawn as the first of them is. */
  #leaderOf(session: string, vnode: string): string {
    const tied = this.#tied.get(this.#records.session(session)?.network ?? "") ?? [];
    return tied.includes(vnode) ? (tied[0] as string) : vnode;
  }

  /** What an orchestrator tells a PNode to do. */
  told(atMs: number, { assignments }: Pick<Assignments, "assignments">): void {
    for (const { session, vnode, work } of assignments) {
      if (work.case !== "auditing" || work.value.against === "") continue;
      const name = `interval/${session}/`;
      const interval = this.#records.under<IntervalRecord>(name).find(({ to }) => BigInt(to) === work.value.to);
      if (interval !== undefined && interval.audits[vnode]?.outcome === undefined)
        this.#wrong(atMs, `an auditor of VNode ${vnode} was told a result before anything was found`);
    }
  }

  /** In the end: so many answers were wrong. Whoever gave them is newer than its checks, and is found. */
  answered(atMs: number, misled: number): void {
    if (misled < misledForSure) return;
    const isFound = this.#records
      .under<StandingRecord>("standing/")
      .some(({ pnode, faults }) => faults.length > 0 && this.#behaviours.has(pnode));
    if (!isFound) this.#wrong(atMs, `${misled} answers were wrong, and nobody was found`);
  }

  /** In the end. */
  finish(atMs: number): void {
    for (const pnode of this.#lapsed) {
      const known = this.#records.under<StandingRecord>("standing/").find((one) => (one.pnode as string) === pnode);
      const isBlamed = known?.faults.some(({ kind }) => kind === "withholding");
      if (this.#isQuiet && this.#behaviours.get(pnode) === "withholds" && !isBlamed)
        this.#wrong(atMs, `${pnode} withholds what others need, and nobody blames it`);
    }
    for (const { pnode, faults, barred } of this.#records.under<StandingRecord>("standing/")) {
      const behaviour = this.#behaviours.get(pnode);
      const isHonest = behaviour === undefined || honest.has(behaviour);
      for (const { kind, story } of faults)
        if (isHonest && (kind === "lie" || kind === "equivocation"))
          this.#wrong(atMs, `${pnode} (${behaviour ?? "honest"}) is blamed: ${story}`);
      const isBlameless =
        behaviour === "feigns" || (behaviour === undefined && this.#losesStatesMs === Number.POSITIVE_INFINITY);
      for (const { kind, story } of faults)
        if (isBlameless && kind === "withholding")
          this.#wrong(atMs, `${pnode} (${behaviour ?? "stores what it sends"}) is blamed for silence: ${story}`);
      if (behaviour === undefined && barred !== undefined)
        this.#wrong(atMs, `${pnode} is honest and barred: ${barred.reason}`);
    }
  }
}

function membersOf(record: string): string[] {
  return (JSON.parse(record) as VNodeRecord).members.map(({ pnode }) => pnode);
}
