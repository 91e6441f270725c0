// Everything the page knows, outside React: frames go in, at most once per animation frame they are applied, and
// components that select something see only changes of that.

import type { WatchFleetResponse } from "../../src/protocol/gen/dcnr/v1/fleet_pb.ts";
import { giveColours } from "../colours.ts";
import { afterFrame, type Move } from "./moves.ts";
import { Series } from "./series.ts";
import {
  type EventView,
  eventView,
  type HostView,
  keepEntries,
  keepEqual,
  type PNodeView,
  pnodeView,
  type SessionView,
  sessionView,
  type VNodeView,
  vnodeView,
  type WaitView,
  waitView,
} from "./views.ts";

export type Connection =
  | { readonly state: "connecting" }
  | { readonly state: "live" }
  /** Nobody looks at the page, so nothing is asked for. */
  | { readonly state: "resting" }
  | { readonly state: "away"; readonly sinceMs: number; readonly retryAtMs: number; readonly reason: string };

export interface Totals {
  readonly pnodesOnline: number;
  readonly pnodesLost: number;
  readonly cores: number;
  readonly coresUsed: number;
  readonly gpus: number;
  readonly memoryBytes: number;
  readonly orchestrators: number;
}

export interface Load {
  readonly wallMs: number;
  readonly load: number;
}

export interface State {
  readonly connection: Connection;
  /** Nothing is known before the first frame. */
  readonly known: boolean;
  readonly totals: Totals;
  readonly waits: readonly WaitView[];
  readonly problems: readonly string[];
  readonly pnodes: ReadonlyMap<string, PNodeView>;
  /** PNodes by id, with what changes seldom. */
  readonly hosts: ReadonlyMap<string, HostView>;
  readonly names: ReadonlyMap<string, string>;
  /** VNodes without their numbers. */
  readonly placements: ReadonlyMap<string, VNodeView>;
  readonly vnodes: ReadonlyMap<string, VNodeView>;
  readonly sessions: ReadonlyMap<string, SessionView>;
  readonly moves: ReadonlyMap<string, Move>;
  /** The oldest first. */
  readonly events: readonly EventView[];
  readonly loads: readonly Load[];
  /** Grows when a series changed. */
  readonly seriesVersion: number;
}

const eventsKept = 2_000;
/** Rates seen by this page, for the sparkline. */
const ratesKept = 240;

const empty: State = {
  connection: { state: "connecting" },
  known: false,
  totals: { pnodesOnline: 0, pnodesLost: 0, cores: 0, coresUsed: 0, gpus: 0, memoryBytes: 0, orchestrators: 0 },
  waits: [],
  problems: [],
  pnodes: new Map(),
  hosts: new Map(),
  names: new Map(),
  placements: new Map(),
  vnodes: new Map(),
  sessions: new Map(),
  moves: new Map(),
  events: [],
  loads: [],
  seriesVersion: 0,
};

export class Store {
  state = empty;
  readonly series = new Map<string, Series>();
  readonly rates = new Map<string, number[]>();
  /** When each VNode last advanced, for what moves on screen. */
  readonly advancedAtMs = new Map<string, number>();
  readonly #lastHosts = new Map<string, string>();
  readonly #seenEvents = new Set<string>();
  readonly #listeners = new Set<() => void>();
  readonly #queue: WatchFleetResponse[] = [];
  #scheduled = false;
  #ratedAtMs = 0;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  connect(connection: Connection): void {
    this.#set({ connection });
  }

  receive(frame: WatchFleetResponse): void {
    this.#queue.push(frame);
    if (this.#scheduled) return;
    this.#scheduled = true;
    const apply = () => {
      this.#scheduled = false;
      this.#apply(this.#queue.splice(0));
    };
    if (document.hidden) queueMicrotask(apply);
    else requestAnimationFrame(apply);
  }

  addEvents(found: readonly EventView[]): void {
    const events = this.#mergedEvents(found);
    if (events !== this.state.events) this.#set({ events });
  }

  addMetrics(session: string, metrics: readonly { name: string; step: bigint; value: number }[]): void {
    if (metrics.length === 0) return;
    const series = this.seriesOf(session);
    for (const metric of metrics) series.add(metric);
    this.#set({ seriesVersion: this.state.seriesVersion + 1 });
  }

  addVNodes(found: readonly VNodeView[]): void {
    const vnodes = new Map(this.state.vnodes);
    for (const vnode of found) vnodes.set(vnode.key, keepEqual(vnodes.get(vnode.key), vnode));
    const placements = keepEntries(this.state.placements, Array.from(vnodes.values(), placementOf), (one) => one.key);
    this.#set({ vnodes, placements });
  }

  seriesOf(session: string): Series {
    let series = this.series.get(session);
    if (!series) {
      series = new Series();
      this.series.set(session, series);
    }
    return series;
  }

  #apply(frames: readonly WatchFleetResponse[]): void {
    const newest = frames.at(-1);
    if (!newest) return;
    const nowMs = performance.now();
    const before = this.state;
    const status = newest.status;
    const pnodes = keepEntries(before.pnodes, newest.pnodes.map(pnodeView), (one) => one.id);
    const sessions = keepEntries(before.sessions, (status?.sessions ?? []).map(sessionView), (one) => one.id);
    const hosts = hostsOf(before.hosts, pnodes);
    const vnodes = this.#vnodes(newest.vnodes.map(vnodeView), sessions);
    for (const [key, vnode] of vnodes)
      if (before.vnodes.get(key)?.step !== vnode.step && before.vnodes.has(key)) this.advancedAtMs.set(key, nowMs);
    const metrics = frames.flatMap((frame) => frame.metrics);
    for (const metric of metrics) this.seriesOf(metric.session).add(metric);
    this.#rate(sessions, nowMs);
    this.#set({
      connection: before.connection.state === "live" ? before.connection : { state: "live" },
      known: true,
      totals: keepEqual(before.totals, {
        pnodesOnline: status?.pnodesOnline ?? 0,
        pnodesLost: status?.pnodesLost ?? 0,
        cores: status?.cores ?? 0,
        coresUsed: status?.coresUsed ?? 0,
        gpus: status?.gpus ?? 0,
        memoryBytes: Number(status?.memoryBytes ?? 0),
        orchestrators: status?.orchestrators.length ?? 0,
      }),
      waits: keepList(before.waits, (status?.waits ?? []).map(waitView)),
      problems: keepList(before.problems, status?.problems ?? []),
      pnodes,
      hosts,
      names: hosts === before.hosts ? before.names : new Map(Array.from(hosts, ([id, { name }]) => [id, name])),
      placements: keepEntries(before.placements, Array.from(vnodes.values(), placementOf), (one) => one.key),
      sessions,
      vnodes,
      moves: afterFrame(before.moves, before.vnodes, vnodes, hosts, this.#lastHosts, nowMs),
      events: this.#mergedEvents(frames.flatMap((frame) => frame.events).map(eventView)),
      loads: keepLoads(before.loads, status?.history ?? []),
      seriesVersion: before.seriesVersion + (metrics.length > 0 ? 1 : 0),
    });
  }

  /** Sessions that are done are not told any more: what was seen of them last stays. */
  #vnodes(told: VNodeView[], sessions: ReadonlyMap<string, SessionView>): ReadonlyMap<string, VNodeView> {
    const toldSessions = new Set(told.map((one) => one.session));
    for (const vnode of this.state.vnodes.values())
      if (!toldSessions.has(vnode.session) && sessions.has(vnode.session)) told.push(vnode);
    return keepEntries(this.state.vnodes, told, (one) => one.key);
  }

  #rate(sessions: ReadonlyMap<string, SessionView>, nowMs: number): void {
    if (nowMs - this.#ratedAtMs < 1_000) return;
    this.#ratedAtMs = nowMs;
    for (const { id, status, samplesPerSecond } of sessions.values()) {
      if (status !== "running" && !this.rates.has(id)) continue;
      const rates = this.rates.get(id) ?? [];
      rates.push(status === "running" ? samplesPerSecond : 0);
      if (rates.length > ratesKept) rates.shift();
      this.rates.set(id, rates);
    }
  }

  #mergedEvents(found: readonly EventView[]): readonly EventView[] {
    const fresh = found.filter((event) => !this.#seenEvents.has(event.key) && this.#seenEvents.add(event.key));
    if (fresh.length === 0) return this.state.events;
    const events = [...this.state.events, ...fresh];
    const lastMs = this.state.events.at(-1)?.wallMs ?? 0;
    if (fresh.some((event) => event.wallMs < lastMs) || this.state.events.length === 0)
      events.sort((a, b) => a.wallMs - b.wallMs);
    for (const old of events.splice(0, Math.max(0, events.length - eventsKept))) this.#seenEvents.delete(old.key);
    return events;
  }

  #set(change: Partial<State>): void {
    this.state = { ...this.state, ...change };
    for (const listener of this.#listeners) listener();
  }
}

function keepList<T>(before: readonly T[], after: readonly T[]): readonly T[] {
  if (before.length === 0 && after.length === 0) return before;
  return JSON.stringify(before) === JSON.stringify(after) ? before : after;
}

function keepLoads(before: readonly Load[], history: readonly { wallMs: bigint; load: number }[]): readonly Load[] {
  if (Number(history.at(-1)?.wallMs ?? 0) === (before.at(-1)?.wallMs ?? 0)) return before;
  return history.map(({ wallMs, load }) => ({ wallMs: Number(wallMs), load }));
}

function hostsOf(
  before: ReadonlyMap<string, HostView>,
  pnodes: ReadonlyMap<string, PNodeView>,
): ReadonlyMap<string, HostView> {
  let same = before.size === pnodes.size;
  const after = new Map<string, HostView>();
  for (const { id, name, status } of pnodes.values()) {
    const known = before.get(id);
    const kept = keepEqual(known, { name, status });
    if (kept !== known) same = false;
    after.set(id, kept);
  }
  if (!same) giveColours(after.keys());
  return same ? before : after;
}

function placementOf(vnode: VNodeView): VNodeView {
  return { ...vnode, step: 0, stepMs: 0, durableStep: 0, detail: "" };
}
