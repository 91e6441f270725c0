// Numbers over time: loss, validation, rates. They arrive with heartbeats, are written in batches of one record,
// and read in pages. Replays report the same numbers again; the first of equal names is kept.

import type { Cancel } from "../../core/world.ts";
import { createItem, listItems, readItem } from "../../store/records/update.ts";
import type { Context } from "../context.ts";
import type { SessionRecord } from "../records/sessions.ts";
import { key, prefix } from "../records/store-keys.ts";
import type { MetricRecord } from "../records/vnodes.ts";
import { LaneMeans, lanesTelling } from "./lane-means.ts";

export interface MetricPoint {
  readonly name: string;
  readonly step: number;
  readonly value: number;
  readonly vnode: string;
}

/** So that a batch tells of as many steps at most, too: each step has a point. */
const batchPointsMax = 2_000;
/** Recent points kept in memory per session, for watchers and for the newest value of each name. */
const recentPoints = 2_000;
const nameLengthMax = 100;

interface Series {
  readonly recent: MetricPoint[];
  readonly seen: Set<string>;
  readonly newest: Map<string, MetricPoint>;
  unsaved: MetricPoint[];
  readonly means: LaneMeans;
}

export class Metrics {
  readonly #context: Context;
  readonly #series = new Map<string, Series>();
  readonly #listeners = new Set<(session: string, points: readonly MetricPoint[]) => void>();
  readonly #own = new Set<string>();
  readonly #recalled = new Map<string, Promise<void>>();
  #batches = 0;

  constructor(context: Context) {
    this.#context = context;
  }

  start(): Cancel {
    const { tasks, timings, mirror } = this.#context;
    tasks.every("saving metrics", timings.metricsFlushMs, () => this.flush());
    // What PNodes tell other orchestrators reaches watchers here through the store.
    return mirror.store.watch(prefix.metrics, (keys) => {
      for (const one of keys) if (!this.#own.has(one)) tasks.run("reading metrics", () => this.#import(one));
    });
  }

  add(session: string, points: readonly MetricPoint[]): void {
    const fresh = this.#take(session, points);
    if (fresh.length === 0) return;
    this.#seriesOf(session).unsaved.push(...fresh);
  }

  subscribe(listener: (session: string, points: readonly MetricPoint[]) => void): Cancel {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  newest(session: string, name: string): MetricPoint | undefined {
    return this.#series.get(session)?.newest.get(name);
  }

  recent(session: string): readonly MetricPoint[] {
    return this.#series.get(session)?.recent ?? [];
  }

  /** The newest value of `name` between two steps, both included. */
  latest(session: string, name: string, fromStep: number, toStep: number): number | undefined {
    const points = this.#series.get(session)?.recent ?? [];
    let found: MetricPoint | undefined;
    for (const point of points)
      if (point.name === name && point.step >= fromStep && point.step <= toStep && (!found || point.step >= found.step))
        found = point;
    return found?.value;
  }

  /** The newest values of sessions that learned before this process began, read from the store once. */
  async recall(sessions: readonly Pick<SessionRecord, "id" | "line">[]): Promise<void> {
    await Promise.all(
      sessions.map(({ id, line }) => {
        if (line === 0 || this.#series.has(id)) return undefined;
        const reading = this.#recalled.get(id) ?? this.#recall(id, line);
        this.#recalled.set(id, reading);
        // A view without its numbers is better than none.
        return reading.catch(() => this.#recalled.delete(id));
      }),
    );
  }

  async #recall(session: string, line: number): Promise<void> {
    const { store } = this.#context.mirror;
    let after: string | undefined = key.metric(session, Math.max(0, line - batchPointsMax), "");
    do {
      const page: Awaited<ReturnType<typeof store.list>> = await store.list(prefix.metricsOf(session), { after });
      const series = this.#seriesOf(session);
      for (const { value } of page.items)
        for (const [name, step, number, vnode] of (JSON.parse(value) as MetricRecord).points) {
          const shown = series.means.add({ name, step, value: number, vnode });
          if (shown !== undefined) noteNewest(series, shown);
        }
      after = page.next;
    } while (after !== undefined);
  }

  forget(session: string): void {
    this.#series.delete(session);
    this.#recalled.delete(session);
  }

  /** Everything known about a session, in order of step and name; the store is read whole. */
  async all(session: string, names: readonly string[], fromStep: number): Promise<MetricPoint[]> {
    const found = new Map<string, MetricPoint>();
    const means = this.#meansOf(session);
    const heard = new Set<string>();
    const show = (point: MetricPoint) => {
      const wanted = point.step >= fromStep && (names.length === 0 || names.includes(point.name));
      const id = idOf(point);
      if (wanted && !found.has(id)) found.set(id, point);
    };
    const take = (point: MetricPoint) => {
      if (heard.has(idOf(point))) return;
      heard.add(idOf(point));
      const shown = means.add(point);
      if (shown !== undefined) show(shown);
    };
    for await (const { record } of listItems<MetricRecord>(this.#context.mirror.store, prefix.metricsOf(session)))
      for (const [name, step, value, vnode] of record.points) take({ name, step, value, vnode });
    for (const point of this.#series.get(session)?.unsaved ?? []) take(point);
    for (const point of this.recent(session)) show(point);
    return Array.from(found.values()).sort(
      (a, b) => a.step - b.step || compare(a.name, b.name) || compare(a.vnode, b.vnode),
    );
  }

  async flush(): Promise<void> {
    for (const [session, series] of this.#series) {
      while (series.unsaved.length > 0) {
        const batch = series.unsaved.slice(0, batchPointsMax);
        const first = Math.min(...batch.map((point) => point.step));
        const name = key.metric(session, first, `${this.#context.incarnation}-${++this.#batches}`);
        this.#own.add(name);
        if (this.#own.size > 1_000) this.#own.delete(this.#own.values().next().value as string);
        const points = batch.map(({ name, step, value, vnode }) => [name, step, value, vnode] as const);
        await createItem<MetricRecord>(this.#context.mirror.store, name, { session, points }, this.#context.world, {
          timeoutMs: 2_000,
        });
        series.unsaved = series.unsaved.slice(batch.length);
      }
    }
  }

  async #import(name: string): Promise<void> {
    const item = await readItem<MetricRecord>(this.#context.mirror.store, name);
    if (!item) return;
    this.#take(
      item.record.session,
      item.record.points.map(([name, step, value, vnode]) => ({ name, step, value, vnode })),
    );
  }

  #take(session: string, points: readonly MetricPoint[]): MetricPoint[] {
    const series = this.#seriesOf(session);
    const fresh = points.filter((point) => isNew(series, point));
    const shown = fresh.flatMap((point) => series.means.add(point) ?? []);
    for (const point of shown) {
      series.recent.push(point);
      if (series.recent.length > recentPoints) series.recent.shift();
      noteNewest(series, point);
    }
    if (shown.length > 0) for (const listener of this.#listeners) listener(session, shown);
    return fresh;
  }

  #meansOf(session: string): LaneMeans {
    return new LaneMeans((told) => lanesTelling(this.#context.mirror.get(key.session(session)), told));
  }

  #seriesOf(session: string): Series {
    let series = this.#series.get(session);
    if (!series) {
      series = { recent: [], seen: new Set(), newest: new Map(), unsaved: [], means: this.#meansOf(session) };
      this.#series.set(session, series);
    }
    return series;
  }
}

function idOf({ step, name, vnode }: MetricPoint): string {
  return `${step}/${name}/${vnode}`;
}

/** False for what was known before, and for what is no number. */
function isNew({ seen }: Series, point: MetricPoint): boolean {
  const id = idOf(point);
  if (seen.has(id) || point.name.length > nameLengthMax || !Number.isFinite(point.value)) return false;
  seen.add(id);
  if (seen.size > 4 * recentPoints) seen.delete(seen.values().next().value as string);
  return true;
}

function noteNewest({ newest }: Series, point: MetricPoint): void {
  const known = newest.get(point.name);
  if (!known || point.step >= known.step) newest.set(point.name, point);
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
