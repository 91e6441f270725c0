// What one PNode knows of a session's crew, and what it decides by that: who is alive, how far the line may move, which
// VNodes it takes over. No clock and no I/O: whoever performs it brings the time. The rules are a parameter, so that a
// simulated world can break one of them and show what it is for.

import type { Sha256, VNodeId } from "../core/ids.ts";
import { type Charter, isExpired } from "./charter.ts";
import {
  type HolderList,
  type Holdings,
  heldLine,
  heldState,
  heldTimes,
  isPossible,
  toldSequenceMax,
  withHolder,
} from "./holdings.ts";
import { afterStandstill, type Sightings, type ToldSighting, withSightings } from "./sightings.ts";
import { successorsOf } from "./successors.ts";
import { isOwnedBy, type Tenure, type TenureOwner, type Tenures, takenOver, withTenures } from "./tenures.ts";

export interface CrewState {
  readonly self: TenureOwner;
  readonly charter: Charter;
  readonly tenures: Tenures;
  readonly holdings: Holdings;
  readonly sightings: Sightings;
  /** Messages below it may be gone. Grows within a turn. */
  readonly line: number;
  readonly lineBefore: number;
  readonly turn: number;
  /** When anybody of the crew last heard an orchestrator. */
  readonly orchestratorAtMs: number;
  /** VNodes without a living owner, and since when that is so. */
  readonly ownerlessSinceMs: ReadonlyMap<VNodeId, number>;
}

export interface CrewTimings {
  /** Nobody heard an orchestrator for this long: the crew goes on by itself. */
  readonly aloneMs: number;
  /** One of the crew of whom nobody heard for this long is gone. */
  readonly silentMs: number;
  /** Each successor waits this much longer than the one before it. */
  readonly staggerMs: number;
}

export interface CrewNews {
  readonly line: number;
  readonly turn: number;
  readonly holders: readonly (HolderList & { readonly pnode: string })[];
  readonly tenures: readonly Tenure[];
  readonly sightings: readonly ToldSighting[];
  /** Negative: never. */
  readonly orchestratorAgeMs: number;
}

/** How often a VNode may have been placed anew since the charter that one of the crew knows. */
export const epochsAheadMax = 1_000;
/** Takeovers of a VNode under one epoch: a day of one every second has fewer. */
const countMax = 100_000;

/** What the promise rests on while no orchestrator is there. */
export interface CrewRules {
  /** Whose copies of a state are counted on. */
  counts(state: CrewState, holder: string, nowMs: number, timings: CrewTimings): boolean;
  /** Who keeps a VNode's states beside whoever made them, of those who can. */
  keepers(
    state: CrewState,
    vnode: VNodeId,
    nowMs: number,
    timings: CrewTimings,
    canKeep: (pnode: string) => boolean,
  ): readonly string[];
  /** Whether this PNode may host what it did not own. */
  mayHost(state: CrewState, nowMs: number, timings: CrewTimings): boolean;
  /** The line after somebody else told theirs. */
  lineAfter(line: number, told: number): number;
  /** Whether a VNode goes on below the line of its PNode. */
  readonly staysBelowTheLine: boolean;
  /** Whether a PNode goes on with what somebody else has taken over. */
  readonly losersGoOn: boolean;
}

export const crewRules: CrewRules = {
  counts: isAlive,
  keepers: (state, vnode, nowMs, timings, canKeep) =>
    successorsOf(
      state.charter.session,
      vnode,
      living(state, nowMs, timings).filter((pnode) => pnode !== state.self.pnode && canKeep(pnode)),
    ).slice(0, state.charter.keepers),
  mayHost: ({ charter, self }) => charter.crew.get(self.pnode)?.hosts === true,
  lineAfter: Math.max,
  staysBelowTheLine: false,
  losersGoOn: false,
};

export function openCrew(charter: Charter, self: TenureOwner, nowMs: number): CrewState {
  const sightings = new Map(
    Array.from(charter.crew, ([pnode, { routes }]) => [pnode, { atMs: nowMs, incarnation: "", routes }] as const),
  );
  return {
    ...{ self, charter, sightings, line: charter.line, lineBefore: charter.line, turn: charter.turn },
    tenures: withTenures(
      new Map(),
      charter.vnodes.map(({ tenure }) => tenure),
    ),
    holdings: new Map(),
    orchestratorAtMs: nowMs,
    ownerlessSinceMs: new Map(),
  };
}

/** A newer charter, whoever brought it. */
export function chartered(state: CrewState, charter: Charter, nowMs: number): CrewState {
  if (charter.revision <= state.charter.revision) return state;
  const added = openCrew(charter, state.self, nowMs).sightings;
  const sightings = new Map(Array.from(added, ([pnode, seen]) => [pnode, state.sightings.get(pnode) ?? seen]));
  const tenures = withTenures(
    state.tenures,
    charter.vnodes.map(({ tenure }) => tenure),
  );
  return withLine({ ...state, charter, sightings, tenures }, charter.line, charter.turn);
}

/** An orchestrator's word about owners; of a VNode that has none, too. */
export function toldTenures(state: CrewState, told: readonly Tenure[]): CrewState {
  const known = new Set(state.charter.vnodes.map(({ vnode }) => vnode));
  const tenures = told.filter(({ vnode }) => known.has(vnode));
  return tenures.length === 0 ? state : { ...state, tenures: withTenures(state.tenures, tenures) };
}

/** A line that is known to hold: an orchestrator's, or one by which somebody has thrown messages away. */
export function withLine(state: CrewState, line: number, turn: number): CrewState {
  if (turn > state.turn) return { ...state, line, lineBefore: line, turn };
  if (turn < state.turn || line <= state.line) return state;
  return { ...state, line, lineBefore: state.line };
}

/**
 * What `peer` told. While an orchestrator is there its word is the only one about owners and turns, of what is held each speaks for
 * itself alone, and a line counts that those who hold its states have told of themselves: one liar of the crew could stop a session
 * else. Without an orchestrator the crew has to believe each other.
 */
export function heardNews(
  state: CrewState,
  peer: string,
  news: CrewNews,
  nowMs: number,
  { rules, timings }: { readonly rules: CrewRules; readonly timings: CrewTimings },
): CrewState {
  const { orchestratorAgeMs } = news;
  const heardMs = orchestratorAgeMs < 0 ? state.orchestratorAtMs : nowMs - orchestratorAgeMs;
  const alone = isAlone(state, nowMs, timings);
  let holdings = state.holdings;
  // Of what this process holds it knows best.
  for (const { pnode, sequence, states } of news.holders)
    if (
      state.charter.crew.has(pnode) &&
      pnode !== state.self.pnode &&
      (pnode === peer || (alone && sequence <= toldSequenceMax)) &&
      isPossible({ sequence, states }, state.charter.vnodes.length)
    )
      holdings = withHolder(holdings, pnode, { sequence, states });
  const sightings = news.sightings.filter(({ pnode }) => state.charter.crew.has(pnode) && pnode !== state.self.pnode);
  const next: CrewState = {
    ...state,
    holdings,
    sightings: withSightings(state.sightings, sightings, nowMs),
    tenures: withTenures(state.tenures, alone ? news.tenures.filter(isBelievable(state.charter)) : []),
    orchestratorAtMs: Math.max(state.orchestratorAtMs, heardMs),
  };
  if (!alone)
    return news.turn === next.turn && news.line > next.line && isHeldAt(next, news.line, nowMs, timings)
      ? withLine(next, news.line, news.turn)
      : next;
  return withLine(next, news.turn === next.turn ? rules.lineAfter(next.line, news.line) : news.line, news.turn);
}

/**
 * Epochs are given by orchestrators and charters are signed by them: one that is far above the charter's was made up, and would
 * stand above every word of theirs. So would a count that leaves no room for the next.
 */
function isBelievable({ crew, vnodes }: Charter): (told: Tenure) => boolean {
  const epochs = new Map(vnodes.map(({ vnode, tenure }) => [vnode, tenure.epoch]));
  return ({ vnode, epoch, count, owners }) =>
    epoch <= (epochs.get(vnode) ?? Number.NEGATIVE_INFINITY) + epochsAheadMax &&
    count <= countMax &&
    owners.every(({ pnode }) => crew.has(pnode));
}

export function stoodStill(state: CrewState, stoodStillMs: number, nowMs: number): CrewState {
  if (stoodStillMs <= 0) return state;
  return {
    ...state,
    sightings: afterStandstill(state.sightings, stoodStillMs, nowMs),
    orchestratorAtMs: Math.min(nowMs, state.orchestratorAtMs + stoodStillMs),
  };
}

export function isAlive(state: CrewState, pnode: string, nowMs: number, { silentMs }: CrewTimings): boolean {
  if (pnode === state.self.pnode) return true;
  const seen = state.sightings.get(pnode);
  return seen !== undefined && nowMs - seen.atMs < silentMs;
}

export function living(state: CrewState, nowMs: number, timings: CrewTimings): string[] {
  return [...state.charter.crew.keys()].filter((pnode) => isAlive(state, pnode, nowMs, timings));
}

/** No orchestrator is there, as far as anybody of the crew knows. */
export function isAlone(state: CrewState, nowMs: number, { aloneMs }: Pick<CrewTimings, "aloneMs">): boolean {
  return nowMs - state.orchestratorAtMs >= aloneMs;
}

/** Holders that a state needs before anything is thrown away for it. */
export function holdersNeeded(state: CrewState, nowMs: number, timings: CrewTimings): number {
  return Math.max(1, Math.min(state.charter.keepers, living(state, nowMs, timings).length));
}

/** Whether a line could be drawn there by what those say who are there. */
function isHeldAt(state: CrewState, line: number, nowMs: number, timings: CrewTimings): boolean {
  const needed = holdersNeeded(state, nowMs, timings);
  const times = heldTimes(state.holdings, line, (holder) => isAlive(state, holder, nowMs, timings));
  return state.charter.vnodes.every(({ vnode }) => (times.get(vnode) ?? 0) >= needed);
}

/**
 * A line above the orchestrators' that nobody else would draw: its states are held here and, in the view of all who are there, by too few. Behind a
 * split a PNode is a whole crew by itself; what it came to there is no line of those who go on elsewhere.
 */
export function isLonely(state: CrewState, storeLine: number, nowMs: number, timings: CrewTimings): boolean {
  return state.line > storeLine && !isHeldAt(state, state.line, nowMs, timings);
}

/** As if it had never been drawn. */
export function withoutLine(state: CrewState, storeLine: number): CrewState {
  return { ...state, line: storeLine, lineBefore: storeLine };
}

/** A VNode's state at the line; undefined if nobody is known to hold it. Empty where it follows from the seed. */
export function stateAtLine({ charter, holdings, line }: CrewState, vnode: VNodeId): Sha256 | "" | undefined {
  const held = heldState(holdings, vnode, line, () => true);
  if (held !== undefined) return held.state;
  if (charter.line === line) return charter.vnodes.find((one) => one.vnode === vnode)?.state;
  return line === 0 ? "" : undefined;
}

/** All of the session's last states are held, so nobody needs a message of it any more. */
export function isOver({ line }: CrewState, lastStep: number | undefined): boolean {
  return lastStep !== undefined && line >= lastStep;
}

export interface Looked {
  readonly state: CrewState;
  /** What this PNode hosts from now on. */
  readonly takeovers: readonly Tenure[];
}

export interface LookOptions {
  readonly nowMs: number;
  readonly wallMs: number;
  readonly timings: CrewTimings;
  readonly rules: CrewRules;
  /** The session's last step; undefined while nobody has said what the session is. */
  readonly lastStep?: number | undefined;
  /** Whether this PNode hosts the VNode already, or could not begin it. */
  readonly isTaken: (vnode: VNodeId) => boolean;
  /** Whether all of these find room here, beside what is hosted. */
  readonly hasRoom: (vnodes: readonly VNodeId[]) => boolean;
}

/** What follows from all that is known by now. */
export function look(before: CrewState, options: LookOptions): Looked {
  const { nowMs, wallMs, timings, rules } = options;
  const idle: CrewState = before.ownerlessSinceMs.size === 0 ? before : { ...before, ownerlessSinceMs: new Map() };
  if (!isAlone(before, nowMs, timings) || isExpired(before.charter, wallMs)) return { state: idle, takeovers: [] };
  const line = heldLine(before.holdings, {
    vnodes: before.charter.vnodes.map(({ vnode }) => vnode),
    counts: (holder) => rules.counts(before, holder, nowMs, timings),
    needed: holdersNeeded(before, nowMs, timings),
    above: before.line,
  });
  const moved = line === undefined ? before : withLine(before, line, before.turn);
  // Its last states are held: nothing is left to do but to tell.
  if (isOver(moved, options.lastStep)) return { state: moved, takeovers: [] };
  return rules.mayHost(moved, nowMs, timings) ? lookForOwnerless(moved, options) : { state: moved, takeovers: [] };
}

function lookForOwnerless(before: CrewState, options: LookOptions): Looked {
  const { nowMs, timings, isTaken, hasRoom } = options;
  const ownerlessSinceMs = new Map<VNodeId, number>();
  const takeovers: Tenure[] = [];
  let { tenures } = before;
  for (const [vnode, tenure] of before.tenures) {
    if (isHosted(before, tenure, nowMs, timings) || isTaken(vnode)) continue;
    // What one claims and has no room for is nobody's: the others take it for hosted.
    if (!hasRoom([...takeovers.map((taken) => taken.vnode), vnode])) continue;
    if (isOwnedBy(tenure, before.self)) {
      // Its own by the charter, and the orchestrator went before it could say so: everybody else counts on it.
      takeovers.push(tenure);
      continue;
    }
    const sinceMs = before.ownerlessSinceMs.get(vnode) ?? nowMs;
    const hosts = living(before, nowMs, timings).filter((pnode) => before.charter.crew.get(pnode)?.hosts);
    const rank = successorsOf(before.charter.session, vnode, hosts).indexOf(before.self.pnode);
    if (nowMs - sinceMs < Math.max(0, rank) * timings.staggerMs) {
      ownerlessSinceMs.set(vnode, sinceMs);
      continue;
    }
    const takeover = takenOver(tenure, before.self);
    tenures = withTenures(tenures, [takeover]);
    takeovers.push(takeover);
  }
  return { state: { ...before, tenures, ownerlessSinceMs }, takeovers };
}

/** Any other of its owners is alive, and is the process that was meant; whether this one hosts what it owns, it knows itself. */
function isHosted(state: CrewState, tenure: Tenure, nowMs: number, timings: CrewTimings): boolean {
  if (isOwnedBy(tenure, state.self)) return false;
  return tenure.owners.some(({ pnode, incarnation }) => {
    if (pnode === state.self.pnode) return false;
    const seen = state.sightings.get(pnode)?.incarnation ?? "";
    return isAlive(state, pnode, nowMs, timings) && (seen === "" || incarnation === "" || seen === incarnation);
  });
}
