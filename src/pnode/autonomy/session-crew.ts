// One session's crew as one of its PNodes lives it: tells and hears news, keeps states and has its own kept, and carries
// out what src/crew decides: a line that moves, VNodes that are taken over or given up.

import { blobBytesMax } from "../../core/blobs.ts";
import { DcnrError, fail, messageOf } from "../../core/errors.ts";
import { sha256 } from "../../core/hash.ts";
import { parseSha256, type Sha256, type VNodeId } from "../../core/ids.ts";
import type { Tasks } from "../../core/tasks.ts";
import { type Cancel, sleep, type World } from "../../core/world.ts";
import type { Charter, SignedCharter } from "../../crew/charter.ts";
import {
  type CrewRules,
  type CrewState,
  type CrewTimings,
  chartered,
  heardNews,
  holdersNeeded,
  isAlive,
  isAlone,
  look,
  openCrew,
  stateAtLine,
  stoodStill,
  toldTenures,
  withLine,
} from "../../crew/crew.ts";
import { disputed, type HeldState, type HolderList, heldState, withHolder } from "../../crew/holdings.ts";
import { withSightings } from "../../crew/sightings.ts";
import { successorsOf } from "../../crew/successors.ts";
import { isOwnedBy, isTakeover, type Tenure, type TenureOwner } from "../../crew/tenures.ts";
import type { CrewNews as WireNews } from "../../protocol/gen/dcnr/v1/session_peers_pb.ts";
import { readStateManifest, type StateManifest } from "../../states/manifest.ts";
import type { Assignment } from "../assignment.ts";
import type { StepHash } from "../checkpoints.ts";
import { holderFromWire, newsFromWire, newsToWire } from "./crew-wire.ts";
import type { KeptState, KeptStates } from "./kept-states.ts";
import type { CrewPeers, Peer } from "./peers.ts";
import { readTrail, trailBytesMax, trailOf } from "./trail.ts";

/** What the crew does to its PNode. */
export interface CrewHooks {
  /** What it trains of the session now. */
  hosted(): readonly Assignment[];
  /** Whether there is room for a VNode that it does not host. */
  hasRoom(vnode: VNodeId): boolean;
  host(assignment: Assignment): void;
  /** Somebody else hosts it from now on. */
  giveUp(vnode: VNodeId): void;
  /** The line has moved; every VNode's state there, where it is known. */
  onLine(line: number, turn: number, stateOf: (vnode: VNodeId) => Sha256 | "" | undefined): void;
  /** Who hosts what, and where. */
  onTenures(tenures: readonly Tenure[], routesOf: (pnode: string) => string): void;
}

export interface SessionCrewOptions {
  readonly self: TenureOwner;
  readonly world: World;
  readonly tasks: Tasks;
  readonly signal: AbortSignal;
  readonly timings: CrewTimings & { readonly tellMs: number };
  readonly rules: CrewRules;
  readonly kept: KeptStates;
  readonly peers: CrewPeers;
  /** Where peers reach this PNode. */
  readonly routes: () => string;
  /** When an orchestrator last said something to this PNode; undefined while it is attached to none. */
  readonly orchestratorHeardMs: () => number | undefined;
  /** From the store, while an orchestrator is there. */
  readonly fetchStored: (
    session: string,
    hash: Sha256,
    room: (bytes: number) => Uint8Array,
    signal: AbortSignal,
  ) => Promise<Uint8Array>;
  readonly hooks: CrewHooks;
}

/** A larger crew is told in turns: a few neighbours each time, and a few by chance. */
const tellAllMax = 8;
const tellNeighbours = 3;
const atMost = (bytesMax: number) => (bytes: number) =>
  bytes <= bytesMax ? new Uint8Array(bytes) : fail("resource_exhausted", `${bytes} bytes are more than ${bytesMax}`);
const exactly = (expected: number) => (bytes: number) =>
  bytes === expected ? new Uint8Array(bytes) : fail("data_loss", `${bytes} bytes came, not ${expected}`);
const trailRoom = atMost(trailBytesMax);

/** What is on disk is tried again after this when it could not be written. */
const diskPauseMs = 2_000;

export class SessionCrew {
  readonly #options: SessionCrewOptions;
  #state: CrewState;
  #signed: SignedCharter;
  /** Newest line that an orchestrator told. */
  #storeLine: number;
  #sequence: number;
  #tickDueMs: number;
  #cancelTick: Cancel = () => {};
  #round = 0;
  #stopped = false;
  readonly #telling = new Set<string>();
  readonly #keeping = new Set<string>();
  /** What each peer said that it knows, when it last answered. */
  readonly #known = new Map<string, { readonly known: ReadonlyMap<string, number>; readonly revision: bigint }>();
  readonly #waiting = new Set<() => void>();
  readonly #disputes = new Set<string>();
  /** Bytes that keepers fetched here, and the checkpoints that were made here. */
  keptBytes = 0;
  keptStates = 0;

  constructor(charter: Charter, signed: SignedCharter, options: SessionCrewOptions) {
    this.#options = options;
    this.#signed = signed;
    this.#storeLine = charter.line;
    const { clock } = options.world;
    this.#state = openCrew(charter, options.self, clock.monotonicMs());
    // Higher than that of any earlier process of this PNode, unless its clock went back: peers will tell then.
    this.#sequence = Math.max(1, Math.round(clock.wallMs()));
    this.#tickDueMs = clock.monotonicMs();
    this.#listOwn();
    this.#applyTenures();
    this.#schedule();
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
    return isAlone(this.#heardOrchestrator(this.#state), this.#nowMs, this.#options.timings);
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
    const news = newsFromWire(wire);
    const known = new Map(wire.known.map(({ pnode, sequence }) => [pnode, Number(sequence)]));
    this.#known.set(peer, { known, revision: wire.charterRevision });
    // A list of an earlier process of this PNode is still believed: the next one must be newer.
    const own = known.get(this.#options.self.pnode) ?? 0;
    if (own > this.#sequence && own < Number.MAX_SAFE_INTEGER - 1) {
      this.#sequence = own;
      this.#listOwn();
    }
    const sighted = withSightings(this.#state.sightings, [{ pnode: peer, incarnation, ageMs: 0, routes }], nowMs);
    this.#change(
      heardNews(this.#heardOrchestrator({ ...this.#state, sightings: sighted }), news, nowMs, this.#options),
    );
    for (const { vnode, step } of disputed(this.#state.holdings)) {
      const name = `${vnode} ${step}`;
      if (this.#disputes.has(name)) continue;
      this.#disputes.add(name);
      this.#log("error", `two states of VNode ${vnode} at step ${step} are held: one was computed wrongly`);
    }
  }

  newsFor(peer: string) {
    const other = this.#known.get(peer) ?? { known: new Map(), revision: -1n };
    return newsToWire(this.#heardOrchestrator(this.#state), this.#signed, other, this.#nowMs);
  }

  /** One of the crew has thrown away what a VNode here needs: it knows more than this PNode. */
  askForNews(pnode: string): void {
    const peer = this.#peer(pnode);
    if (peer) this.#tell(peer);
  }

  #tell(peer: Peer): void {
    const { pnode } = peer;
    const { tasks, peers, self, routes } = this.#options;
    if (this.#telling.has(pnode)) return;
    this.#telling.add(pnode);
    tasks.run(`news for PNode ${pnode}`, async () => {
      try {
        const request = { incarnation: self.incarnation, routes: routes(), news: this.newsFor(pnode) };
        const { incarnation, news } = await peers.tell(peer, request);
        if (news !== undefined && !this.#stopped) this.onNews(pnode, incarnation, news);
      } catch (error) {
        this.#log("debug", `PNode ${pnode} does not hear: ${messageOf(error)}`);
      } finally {
        this.#telling.delete(pnode);
      }
    });
  }

  /** Set by whoever checks charters that come with answers. */
  onNews: (pnode: string, incarnation: string, news: WireNews) => void = (pnode, incarnation, news) =>
    this.heard(pnode, incarnation, "", news);

  #tellAll(all: boolean): void {
    const others = [...this.#state.charter.crew.keys()].filter((pnode) => pnode !== this.#options.self.pnode);
    for (const pnode of all ? others : this.#toldNow(others)) {
      const peer = this.#peer(pnode);
      if (peer) this.#tell(peer);
    }
  }

  #toldNow(others: readonly string[]): readonly string[] {
    if (others.length <= tellAllMax) return others;
    const ring = [...others].sort();
    const next = ring.findIndex((pnode) => pnode > this.#options.self.pnode);
    const neighbours = Array.from({ length: tellNeighbours }, (_, k) => ring[(Math.max(0, next) + k) % ring.length]);
    const { chance } = this.#options.world;
    const drawn = Array.from({ length: tellNeighbours }, () => ring[Math.floor(chance.uniform() * ring.length)]);
    return [...new Set([...neighbours, ...drawn])].filter((pnode) => pnode !== undefined);
  }

  #peer(pnode: string): Peer | undefined {
    const routes = this.routesOf(pnode);
    return routes === "" ? undefined : { pnode, routes };
  }

  routesOf(pnode: string): string {
    return this.#state.sightings.get(pnode)?.routes || this.#state.charter.crew.get(pnode)?.routes || "";
  }

  /** Who may have a blob, the most likely first. */
  sources(hash: Sha256): Peer[] {
    const { timings, self } = this.#options;
    const holds = (pnode: string) =>
      this.#state.holdings.get(pnode)?.states.some(({ state, trail }) => state === hash || trail === hash) ? 0 : 1;
    return [...this.#state.charter.crew.keys()]
      .filter((pnode) => pnode !== self.pnode && isAlive(this.#state, pnode, this.#nowMs, timings))
      .sort((a, b) => holds(a) - holds(b))
      .flatMap((pnode) => this.#peer(pnode) ?? []);
  }

  // Keeping

  /** A checkpoint of this PNode's own; resolves when it is held often enough to be counted on, or nobody waits. */
  async keepOwn(
    vnode: VNodeId,
    step: number,
    snapshot: {
      manifest(): Promise<StateManifest>;
      part(index: number, room: (bytes: number) => Uint8Array): Promise<Uint8Array>;
    },
    hashes: readonly StepHash[],
    signal: AbortSignal,
  ): Promise<void> {
    const { kept, world } = this.#options;
    const { session } = this.charter;
    const trail = trailOf(hashes);
    const trailHash = trail.byteLength === 0 ? "" : sha256(trail);
    for (;;) {
      if (signal.aborted || this.#stopped) return;
      try {
        const manifest = await snapshot.manifest();
        const bring = async (hash: Sha256) =>
          hash === trailHash ? trail : snapshot.part(manifest.parts.indexOf(hash), (bytes) => new Uint8Array(bytes));
        await kept.keep({
          ...{ session, vnode, step, manifest, bring },
          trail: trailHash,
          trailBytes: trail.byteLength,
        });
        break;
      } catch (error) {
        this.#log("warn", `the state of VNode ${vnode} at step ${step} is not kept: ${messageOf(error)}; trying again`);
        await sleep(world.timers, diskPauseMs, signal);
      }
    }
    this.keptStates += 1;
    this.#listOwn();
    this.#replicate();
    await this.#until(() => step < this.line || this.#isHeld(vnode, step), signal);
  }

  /** The state that a life is about to start from, onto this PNode's own disk; one attempt. */
  async holdStart({ vnode, line, state }: Assignment, signal: AbortSignal): Promise<void> {
    if (state === "") return;
    const hash = parseSha256(state, `the state of VNode ${vnode}`);
    if (this.#holds(vnode, line, hash)) return;
    const held = { vnode, step: line, state: hash, trail: this.#trailOf(vnode, line, hash) };
    await this.fetchAndKeep(held, this.sources(hash), signal);
    this.#listOwn();
    this.#replicate();
  }

  /** What this PNode hosts and does not hold at the line: it was stored before there was a charter, or by another owner. */
  #holdLine(): void {
    const { hooks, tasks, signal } = this.#options;
    const { line } = this.#state;
    for (const assignment of hooks.hosted()) {
      const { vnode } = assignment;
      const state = stateAtLine(this.#state, vnode);
      const name = `hold ${vnode} ${line}`;
      if (!state || this.#keeping.has(name) || this.#holds(vnode, line, state)) continue;
      this.#keeping.add(name);
      tasks.run(`the state of VNode ${vnode} at step ${line}`, async () => {
        try {
          await this.holdStart({ ...assignment, line, state }, signal);
        } catch (error) {
          this.#log("debug", `VNode ${vnode} at step ${line} is not held here: ${messageOf(error)}`);
        } finally {
          this.#keeping.delete(name);
        }
      });
    }
  }

  #holds(vnode: VNodeId, step: number, state: Sha256): boolean {
    return this.#options.kept.find(this.charter.session, vnode, step)?.state === state;
  }

  #trailOf(vnode: VNodeId, step: number, state: Sha256): Sha256 | "" {
    for (const { states } of this.#state.holdings.values())
      for (const held of states)
        if (held.vnode === vnode && held.step === step && held.state === state && held.trail !== "") return held.trail;
    return "";
  }

  /** Step hashes that no store knows, up to a state at the line; empty if nobody has them. */
  async trail(vnode: VNodeId, step: number, signal: AbortSignal): Promise<StepHash[]> {
    const { kept } = this.#options;
    const state = stateAtLine(this.#state, vnode);
    const hash = state && step === this.line ? this.#trailOf(vnode, step, state) : "";
    if (hash === "") return [];
    try {
      const content = (await kept.read(hash)) ?? (await this.fetchBlob(hash, this.sources(hash), trailRoom, signal));
      return sha256(content) === hash ? readTrail(content, step) : [];
    } catch (error) {
      this.#log("warn", `step hashes of VNode ${vnode} up to step ${step} are lost: ${messageOf(error)}`);
      return [];
    }
  }

  /** From the first of them who has it. */
  async fetchBlob(
    hash: Sha256,
    from: readonly Peer[],
    room: (bytes: number) => Uint8Array,
    signal: AbortSignal,
  ): Promise<Uint8Array> {
    let last: unknown = new DcnrError("unavailable", `nobody of the crew who is there has blob ${hash}`);
    for (const peer of from) {
      if (signal.aborted) break;
      try {
        return await this.#options.peers.fetch(peer, this.charter.session, hash, room, signal);
      } catch (error) {
        last = error;
      }
    }
    if (this.isAlone || signal.aborted) throw last;
    return this.#options.fetchStored(this.charter.session, hash, room, signal);
  }

  /** Resolves when all of it lies on this PNode's disk. */
  async fetchAndKeep(
    { vnode, step, state, trail }: HeldState,
    from: readonly Peer[],
    signal: AbortSignal,
  ): Promise<void> {
    const { kept } = this.#options;
    const { session } = this.charter;
    const what = `the state of VNode ${vnode} at step ${step}`;
    const own = kept.isOf(session, state) ? await kept.read(state) : undefined;
    const text = own ?? (await this.fetchBlob(state, from, atMost(blobBytesMax.states), signal));
    const manifest = readStateManifest(text, what);
    const trailContent = trail === "" ? undefined : await this.fetchBlob(trail, from, trailRoom, signal);
    const bring = async (hash: Sha256, bytes: number) =>
      hash === trail && trailContent ? trailContent : this.fetchBlob(hash, from, exactly(bytes), signal);
    await kept.keep({ ...{ session, vnode, step, manifest, bring, trail }, trailBytes: trailContent?.byteLength ?? 0 });
  }

  /** This PNode holds a state that somebody asked it to keep. */
  keptForOther(): HolderList {
    this.#listOwn();
    return this.#state.holdings.get(this.#options.self.pnode) as HolderList;
  }

  #isHeld(vnode: VNodeId, step: number): boolean {
    const { timings, rules } = this.#options;
    const nowMs = this.#nowMs;
    const held = heldState(this.#state.holdings, vnode, step, (holder) =>
      rules.counts(this.#state, holder, nowMs, timings),
    );
    return (held?.holders.length ?? 0) >= holdersNeeded(this.#state, nowMs, timings);
  }

  #listOwn(): void {
    const { kept, self } = this.#options;
    const states = kept
      .of(this.charter.session)
      .map(({ vnode, step, state, trail }) => ({ vnode, step, state, trail }));
    const list = { sequence: ++this.#sequence, states };
    this.#change({ ...this.#state, holdings: withHolder(this.#state.holdings, self.pnode, list) });
  }

  /** Each state at the line or above has its keepers; whoever is responsible for it asks them. */
  #replicate(): void {
    const { kept, rules, timings } = this.#options;
    const hosted = new Set(this.#options.hooks.hosted().map(({ vnode }) => vnode));
    for (const state of kept.of(this.charter.session)) {
      if (state.step < this.line || !this.#isResponsible(state, hosted)) continue;
      for (const keeper of rules.keepers(this.#state, state.vnode, this.#nowMs, timings))
        this.#askToKeep(keeper, state);
    }
  }

  /** Its owner, or the first of those who hold it if the owner does not. */
  #isResponsible({ vnode, step, state }: KeptState, hosted: ReadonlySet<VNodeId>): boolean {
    if (hosted.has(vnode)) return true;
    const { self, timings } = this.#options;
    const held = heldState(this.#state.holdings, vnode, step, (holder) =>
      isAlive(this.#state, holder, this.#nowMs, timings),
    );
    if (held?.state !== state) return false;
    const owners = this.tenureOf(vnode)?.owners ?? [];
    if (owners.some(({ pnode }) => pnode !== self.pnode && held.holders.includes(pnode))) return false;
    return successorsOf(this.charter.session, vnode, held.holders)[0] === self.pnode;
  }

  #askToKeep(keeper: string, { vnode, step, state, trail }: KeptState): void {
    const { tasks, peers } = this.#options;
    const holds = this.#state.holdings.get(keeper)?.states.some((held) => held.state === state && held.vnode === vnode);
    const name = `${keeper} ${vnode} ${state}`;
    const peer = this.#peer(keeper);
    if (holds || this.#keeping.has(name) || peer === undefined) return;
    this.#keeping.add(name);
    tasks.run(`a state for keeper ${keeper}`, async () => {
      try {
        const request = { session: this.charter.session, vnode, step: BigInt(step), state, trail };
        const { holder } = await peers.keep(peer, request);
        if (holder === undefined || this.#stopped || holder.pnode !== keeper) return;
        this.#change({ ...this.#state, holdings: withHolder(this.#state.holdings, keeper, holderFromWire(holder)) });
      } catch (error) {
        this.#log("debug", `PNode ${keeper} does not keep VNode ${vnode} at step ${step}: ${messageOf(error)}`);
      } finally {
        this.#keeping.delete(name);
      }
    });
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
    this.#look();
    this.#holdLine();
    this.#replicate();
    this.#tellAll(false);
    this.#wake();
    this.#round += 1;
  }

  #look(): void {
    const { world, timings, rules, hooks } = this.#options;
    const hosted = new Set(hooks.hosted().map(({ vnode }) => vnode));
    const { state, takeovers } = look(this.#state, {
      ...{ nowMs: this.#nowMs, wallMs: world.clock.wallMs(), timings, rules },
      isTaken: (vnode) => hosted.has(vnode) || !this.#canHost(vnode),
    });
    this.#change(state);
    for (const tenure of takeovers) this.#takeOver(tenure);
    if (takeovers.length > 0) this.#tellAll(true);
  }

  #canHost(vnode: VNodeId): boolean {
    return stateAtLine(this.#state, vnode) !== undefined && this.#options.hooks.hasRoom(vnode);
  }

  #takeOver({ vnode, epoch, count }: Tenure): void {
    const { session } = this.charter;
    const { line, turn } = this.#state;
    const state = stateAtLine(this.#state, vnode) ?? "";
    this.#log("warn", `no orchestrator is there: VNode ${vnode} is taken over at step ${line}`, { epoch, count });
    this.#options.hooks.host({ ...{ session, vnode, epoch, since: epoch, line, turn, state }, replica: 0, drawn: [] });
  }

  #change(next: CrewState): void {
    const before = this.#state;
    if (next === before) return;
    this.#state = next;
    if (next.line !== before.line || next.turn !== before.turn) this.#applyLine();
    if (next.tenures !== before.tenures || next.sightings !== before.sightings) this.#applyTenures();
    this.#wake();
  }

  #applyLine(): void {
    const { kept, hooks, tasks } = this.#options;
    const { line, turn, lineBefore } = this.#state;
    hooks.onLine(line, turn, (vnode) => stateAtLine(this.#state, vnode));
    tasks.run("drop states below the line", async () => {
      const before = kept.changes;
      await kept.dropBelow(this.charter.session, lineBefore);
      if (kept.changes !== before && !this.#stopped) this.#listOwn();
    });
  }

  #applyTenures(): void {
    const { hooks, rules, self } = this.#options;
    hooks.onTenures([...this.#state.tenures.values()], (pnode) => this.routesOf(pnode));
    for (const { vnode, epoch } of hooks.hosted()) {
      const tenure = this.tenureOf(vnode);
      if (tenure === undefined || epoch > tenure.epoch || isOwnedBy(tenure, self) || rules.losersGoOn) continue;
      this.#log("info", `VNode ${vnode} is hosted by PNode ${tenure.owners[0]?.pnode ?? "?"} from now on`);
      hooks.giveUp(vnode);
    }
  }

  #log(level: "debug" | "info" | "warn" | "error", message: string, fields: Record<string, number> = {}): void {
    this.#options.world.log(level, message, { session: this.charter.session, ...fields });
  }
}
