// One session's crew as one of its PNodes lives it: hears news and carries out what src/crew decides: a line that moves, VNodes that are
// taken over or given up. What it tells is in crew-telling.ts, what it keeps in crew-keeping.ts.

import type { Sha256, VNodeId } from "../../core/ids.ts";
import type { Cancel } from "../../core/world.ts";
import type { Charter, SignedCharter } from "../../crew/charter.ts";
import {
  type CrewState,
  type CrewTimings,
  chartered,
  heardNews,
  isAlive,
  isAlone,
  isLonely,
  isOver,
  look,
  openCrew,
  stateAtLine,
  stoodStill,
  toldTenures,
  withLine,
  withoutLine,
} from "../../crew/crew.ts";
import { disputed } from "../../crew/holdings.ts";
import { areAtSamePlaces, withSightings } from "../../crew/sightings.ts";
import { isOwnedBy, isTakeover, type Tenure } from "../../crew/tenures.ts";
import type { CrewNews as WireNews } from "../../protocol/gen/dcnr/v1/session_peers_pb.ts";
import type { Assignment } from "../assignment.ts";
import type { CrewCell, SessionCrewOptions } from "./crew-cell.ts";
import { CrewKeeping } from "./crew-keeping.ts";
import { CrewTelling } from "./crew-telling.ts";
import { newsFromWire } from "./crew-wire.ts";
import type { Peer } from "./peers.ts";

/** Within this, those who are there have told what they hold, and copies were made anew of what a lost machine held. */
const lonelyMs = 10_000;

export class SessionCrew {
  readonly #options: SessionCrewOptions;
  readonly keeping: CrewKeeping;
  readonly telling: CrewTelling;
  #state: CrewState;
  #signed: SignedCharter;
  /** Newest line that an orchestrator told. */
  #storeLine: number;
  /** Since when nobody would draw the line that was drawn here. */
  #lonelySinceMs: number | undefined;
  /** Something is hosted whose state at the line nobody is known to hold. */
  #isBelow = false;
  #tickDueMs: number;
  #cancelTick: Cancel = () => {};
  #stopped = false;
  readonly #waiting = new Set<() => void>();
  readonly #disputes = new Set<string>();

  constructor(charter: Charter, signed: SignedCharter, options: SessionCrewOptions) {
    this.#options = options;
    this.#signed = signed;
    this.#storeLine = charter.line;
    const { clock } = options.world;
    this.#state = openCrew(charter, options.self, clock.monotonicMs());
    this.#tickDueMs = clock.monotonicMs();
    const cell = this.#cell();
    this.keeping = new CrewKeeping(cell);
    this.telling = new CrewTelling(cell, () => ({
      state: this.#heardOrchestrator(this.#state),
      signed: this.#signed,
    }));
    this.telling.onNews = (pnode, incarnation, news) => this.heard(pnode, incarnation, "", news);
    this.keeping.listOwn();
    this.#applyTenures();
    this.#schedule();
  }

  /** For its parts. */
  #cell(): CrewCell {
    const crew = this;
    return {
      options: this.#options,
      get state() {
        return crew.#state;
      },
      get nowMs() {
        return crew.#nowMs;
      },
      get isStopped() {
        return crew.#stopped;
      },
      get isAlone() {
        return crew.isAlone;
      },
      change: (next) => this.#change(next),
      peer: (pnode) => this.#peer(pnode),
      sources: (hash) => this.sources(hash),
      until: (condition, signal) => this.#until(condition, signal),
      log: (level, message) => this.#log(level, message),
    };
  }

  get charter(): Charter {
    return this.#state.charter;
  }

  get signed(): SignedCharter {
    return this.#signed;
  }

  get line(): number {
    return this.#state.line;
  }

  get turn(): number {
    return this.#state.turn;
  }

  get isAlone(): boolean {
    return isAlone(this.#heardOrchestrator(this.#state), this.#nowMs, this.#timings);
  }

  /** Whether this PNode may come to host what it does not. */
  get mayHost(): boolean {
    return this.#options.rules.mayHost(this.#state, this.#nowMs, this.#timings);
  }

  get lastStep(): number | undefined {
    return this.#options.hooks.lastStep();
  }

  /** More than any state of it has, if that is known. */
  memoryBytesOf(vnode: VNodeId): number | undefined {
    return this.#options.hooks.memoryBytesOf(vnode);
  }

  stateAtLine(vnode: VNodeId): Sha256 | "" | undefined {
    return stateAtLine(this.#state, vnode);
  }

  isCrew(pnode: string): boolean {
    return this.#state.charter.crew.has(pnode);
  }

  stop(): void {
    this.#stopped = true;
    this.#cancelTick();
    this.#wake();
  }

  // What orchestrators say

  learn(charter: Charter, signed: SignedCharter): void {
    if (charter.revision > this.#state.charter.revision) this.#signed = signed;
    this.#storeLine = charter.turn > this.turn ? charter.line : Math.max(this.#storeLine, charter.line);
    this.#change(chartered(this.#state, charter, this.#nowMs));
  }

  toldLine(line: number, turn: number): void {
    this.#storeLine = turn > this.turn ? line : turn === this.turn ? Math.max(this.#storeLine, line) : this.#storeLine;
    this.#change(withLine(this.#state, line, turn));
  }

  toldOwners(tenures: readonly Tenure[]): void {
    this.#change(toldTenures(this.#state, tenures));
  }

  /** Under which word a VNode is hosted; undefined if the session has none of the name. */
  tenureOf(vnode: VNodeId): Tenure | undefined {
    return this.#state.tenures.get(vnode);
  }

  /** Those of whom orchestrators should know. */
  takeovers(): Tenure[] {
    return [...this.#state.tenures.values()].filter(isTakeover);
  }

  /** Nobody starts below the line: what it would need there is gone. */
  raised(assignment: Assignment): Assignment {
    const { line, turn } = this.#state;
    const state = stateAtLine(this.#state, assignment.vnode);
    const isBelow = turn > assignment.turn || (turn === assignment.turn && line > assignment.line);
    return isBelow && state !== undefined && !this.#options.rules.staysBelowTheLine
      ? { ...assignment, line, turn, state }
      : assignment;
  }

  // News

  heard(peer: string, incarnation: string, routes: string, wire: WireNews): void {
    const nowMs = this.#nowMs;
    const news = newsFromWire(wire, this.telling.wayMs(peer));
    const known = new Map(wire.known.map(({ pnode, sequence }) => [pnode, Number(sequence)]));
    this.telling.knows(peer, { known, revision: wire.charterRevision, tenuresHash: hashOrNone(wire.tenuresHash) });
    this.keeping.outrun(known.get(this.#options.self.pnode) ?? 0);
    const sighted = withSightings(this.#state.sightings, [{ pnode: peer, incarnation, ageMs: 0, routes }], nowMs);
    const before = this.#heardOrchestrator({ ...this.#state, sightings: sighted });
    this.#change(heardNews(before, peer, news, nowMs, { rules: this.#options.rules, timings: this.#timings }));
    if (this.#state.holdings !== before.holdings) this.#noticeDisputes();
  }

  #noticeDisputes(): void {
    for (const { vnode, step } of disputed(this.#state.holdings)) {
      const name = `${vnode} ${step}`;
      if (this.#disputes.has(name)) continue;
      this.#disputes.add(name);
      this.#log("error", `two states of VNode ${vnode} at step ${step} are held: one was computed wrongly`);
    }
  }

  /** One of the crew has thrown away what a VNode here needs: it knows more than this PNode. */
  askForNews(pnode: string): void {
    const peer = this.#peer(pnode);
    if (peer) this.telling.tell(peer);
  }

  #peer(pnode: string): Peer | undefined {
    const routes = this.routesOf(pnode);
    return routes === "" ? undefined : { pnode, routes };
  }

  routesOf(pnode: string): string {
    return this.#state.sightings.get(pnode)?.routes || this.#state.charter.crew.get(pnode)?.routes || "";
  }

  /** Those of the crew who are there. */
  others(): Peer[] {
    const { timings, self } = this.#options;
    return [...this.#state.charter.crew.keys()]
      .filter((pnode) => pnode !== self.pnode && isAlive(this.#state, pnode, this.#nowMs, timings))
      .flatMap((pnode) => this.#peer(pnode) ?? []);
  }

  /** Who may have a blob, the most likely first. */
  sources(hash: Sha256): Peer[] {
    const holds = (pnode: string) =>
      this.#state.holdings.get(pnode)?.states.some(({ state, trail }) => state === hash || trail === hash) ? 0 : 1;
    return this.others().sort((a, b) => holds(a.pnode) - holds(b.pnode));
  }

  // Recording

  /** Whether a checkpoint need not be recorded any more: the store has it, or a newer one is counted on. */
  isPast(step: number): boolean {
    return step <= this.#storeLine || step < this.line;
  }

  /** Whether an orchestrator would take this PNode's word for a VNode. */
  mayRecord(vnode: VNodeId, epoch: number): boolean {
    const tenure = this.tenureOf(vnode);
    if (this.#options.orchestratorHeardMs() === undefined || tenure === undefined) return false;
    return !isTakeover(tenure) || epoch > tenure.epoch;
  }

  untilAlone(signal: AbortSignal): Promise<void> {
    return this.#until(() => this.isAlone, signal);
  }

  async #until(condition: () => boolean, signal: AbortSignal): Promise<void> {
    while (!condition() && !signal.aborted && !this.#stopped)
      await new Promise<void>((resolve) => {
        const done = () => {
          this.#waiting.delete(done);
          signal.removeEventListener("abort", done);
          resolve();
        };
        this.#waiting.add(done);
        signal.addEventListener("abort", done, { once: true });
      });
  }

  #wake(): void {
    for (const done of [...this.#waiting]) done();
  }

  // Deciding

  get #nowMs(): number {
    return this.#options.world.clock.monotonicMs();
  }

  /** Orchestrators that are gone for sure are waited for less than those that are silent. */
  get #timings(): CrewTimings {
    const { timings, nobodyListens } = this.#options;
    return nobodyListens() ? { ...timings, aloneMs: timings.aloneAtOnceMs } : timings;
  }

  #schedule(): void {
    const { world, timings } = this.#options;
    this.#tickDueMs = this.#nowMs + timings.tellMs;
    this.#cancelTick = world.timers.after(timings.tellMs, () => {
      if (this.#stopped || this.#options.signal.aborted) return;
      this.#tick();
      this.#schedule();
    });
  }

  #heardOrchestrator(state: CrewState): CrewState {
    const heardMs = this.#options.orchestratorHeardMs();
    return heardMs === undefined || heardMs <= state.orchestratorAtMs ? state : { ...state, orchestratorAtMs: heardMs };
  }

  #tick(): void {
    const nowMs = this.#nowMs;
    this.#change(stoodStill(this.#heardOrchestrator(this.#state), nowMs - this.#tickDueMs, nowMs));
    this.#giveUpLost();
    this.#look();
    this.#letGoWhenOver();
    this.#dropLonelyLine(nowMs);
    this.keeping.holdLine();
    this.keeping.replicate();
    this.telling.tellAll(false);
    this.#wake();
  }

  #look(): void {
    const { world, rules, hooks } = this.#options;
    const hosted = new Set(hooks.hosted().map(({ vnode }) => vnode));
    const { state, takeovers } = look(this.#state, {
      ...{ nowMs: this.#nowMs, wallMs: world.clock.wallMs(), timings: this.#timings, rules },
      lastStep: hooks.lastStep(),
      isTaken: (vnode) => hosted.has(vnode) || stateAtLine(this.#state, vnode) === undefined,
      hasRoom: (vnodes) => hooks.hasRoom(vnodes),
    });
    this.#change(state);
    for (const tenure of takeovers) this.#takeOver(tenure);
    if (takeovers.length > 0) this.telling.tellAll(true);
  }

  /** Nobody asks for anything of a session whose last states are held: what it took is room for others until somebody is told. */
  #letGoWhenOver(): void {
    const { hooks, orchestratorHeardMs } = this.#options;
    // Whoever comes back tells what this PNode hosts when it is attached to again.
    if (!this.isAlone || orchestratorHeardMs() !== undefined || !isOver(this.#state, hooks.lastStep())) return;
    for (const { vnode } of hooks.hosted()) hooks.giveUp(vnode);
  }

  /**
   * With an orchestrator back, the others neither believe a line that one of them drew alone nor need what lies below it from anywhere
   * else: what is hosted here has thrown that away and would be waited for for ever.
   */
  #dropLonelyLine(nowMs: number): void {
    const { hooks, orchestratorHeardMs } = this.#options;
    const isAttached = !this.isAlone && orchestratorHeardMs() !== undefined;
    if (!isAttached || !isLonely(this.#state, this.#storeLine, nowMs, this.#timings)) {
      this.#lonelySinceMs = undefined;
      return;
    }
    this.#lonelySinceMs ??= nowMs;
    if (nowMs - this.#lonelySinceMs < lonelyMs) return;
    this.#lonelySinceMs = undefined;
    this.#log("warn", `nobody else holds the line ${this.line}, drawn here alone: back to ${this.#storeLine}`);
    this.#change(withoutLine(this.#state, this.#storeLine));
    hooks.startOver();
  }

  #takeOver({ vnode, epoch, count, owners }: Tenure): void {
    const { session } = this.charter;
    const { line, turn } = this.#state;
    const { hooks, self } = this.#options;
    const state = stateAtLine(this.#state, vnode) ?? "";
    const what = count > 0 ? `is taken over at step ${line}` : "was granted by the last one that was";
    this.#log("warn", `no orchestrator is there: VNode ${vnode} ${what}`, { epoch, count });
    const replica = owners.findIndex(({ pnode }) => pnode === self.pnode);
    const told = { line, turn, state, drawn: [], rounds: [], numericsClass: "", commonClass: "", rounding: "" };
    hooks.host({ ...{ session, vnode, epoch, since: epoch }, ...told, replica });
  }

  #change(next: CrewState): void {
    const before = this.#state;
    if (next === before) return;
    this.#state = next;
    if (next.line !== before.line || next.turn !== before.turn) this.#applyLine();
    else if (this.#isBelow && next.holdings !== before.holdings) this.#raiseHosts();
    if (next.tenures !== before.tenures || !areAtSamePlaces(next.sightings, before.sightings)) this.#applyTenures();
    this.#wake();
  }

  /** A line may be heard of before anybody who holds its states: those who are below it then are raised when one is known. */
  #raiseHosts(): void {
    const { hooks } = this.#options;
    const { line, turn } = this.#state;
    this.#isBelow = hooks.hosted().some(({ vnode }) => stateAtLine(this.#state, vnode) === undefined);
    hooks.onLine(line, turn, (vnode) => stateAtLine(this.#state, vnode));
  }

  #applyLine(): void {
    const { kept, tasks } = this.#options;
    const { lineBefore } = this.#state;
    this.#raiseHosts();
    tasks.run("drop states below the line", async () => {
      const before = kept.changes;
      await kept.dropBelow(this.charter.session, lineBefore);
      if (kept.changes !== before && !this.#stopped) this.keeping.listOwn();
    });
  }

  #applyTenures(): void {
    this.#options.hooks.onTenures([...this.#state.tenures.values()], (pnode) => this.routesOf(pnode));
    this.#giveUpLost();
  }

  /** What somebody else hosts by now. */
  #giveUpLost(): void {
    const { hooks, rules, self } = this.#options;
    for (const { vnode, epoch } of hooks.hosted()) {
      const tenure = this.tenureOf(vnode);
      if (tenure === undefined || epoch > tenure.epoch || isOwnedBy(tenure, self) || rules.losersGoOn) continue;
      const who = tenure.owners[0] ? `PNode ${tenure.owners[0].pnode}` : "nobody";
      this.#log("info", `VNode ${vnode} is hosted by ${who} from now on`);
      hooks.giveUp(vnode);
    }
  }

  #log(level: "debug" | "info" | "warn" | "error", message: string, fields: Record<string, number> = {}): void {
    this.#options.world.log(level, message, { session: this.charter.session, ...fields });
  }
}

/** A peer of an earlier version tells none. */
function hashOrNone(text: string): string {
  return text.length === 64 ? text : "";
}
