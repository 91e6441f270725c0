// How far sessions are and how fast they get on, as far as this orchestrator hears of it.

import type { PNodeId } from "../../core/ids.ts";
import type { Context } from "../context.ts";
import type { Progress } from "../fleet/attached/attachment.ts";
import type { SessionRecord } from "../records/sessions.ts";
import { key, prefix } from "../records/store-keys.ts";
import { inTurn } from "../records/turns.ts";
import { isLive } from "../records/workloads.ts";
import { samplesBetween } from "../sessions/rates.ts";
import type { Heard } from "./heard.ts";

const rateWindowMs = 15_000;
/** A pause is not how long a step takes. */
const usualGrowthMax = 4;
const usualWeight = 0.3;

interface Point {
  readonly ms: number;
  readonly step: number;
}

interface Usual extends Point {
  /** 0 until a step was seen. */
  readonly stepMs: number;
}

export class Steps {
  readonly #context: Context;
  readonly #heard: Heard;
  readonly #points = new Map<string, Point[]>();
  readonly #usual = new Map<string, Usual>();
  readonly #reached = new Map<string, { readonly turn: number; readonly step: number }>();

  constructor(context: Context, heard: Heard) {
    this.#context = context;
    this.#heard = heard;
  }

  /**
   * The furthest that all VNodes were, for people: what is computed again after a loss comes out as it was, so nothing
   * goes back, unless a stored state turned out to be lost (a new turn).
   */
  reached(record: SessionRecord): number {
    const step = this.of(record);
    const turn = record.turn ?? 0;
    const before = this.#reached.get(record.id);
    if (!isLive(record)) return step;
    if (before?.turn === turn && before.step >= step) return before.step;
    this.#reached.set(record.id, { turn, step });
    return step;
  }

  /** Steps that every VNode has completed where it is now; after a loss that is less than before. */
  of(record: SessionRecord): number {
    if (!isLive(record)) return record.line;
    let least = record.identity.steps;
    for (const vnode of record.vnodes) {
      const progress = this.#progress(record.id, vnode);
      if (progress) least = Math.min(least, progress.step);
      else least = Math.min(least, this.#newestDurable(record, vnode));
    }
    return Math.max(record.line, least);
  }

  /** Called now and then so that rates are known before anyone asks. */
  sample(): void {
    for (const record of this.#context.mirror.under(prefix.sessions)) {
      if (!isLive(record)) {
        this.#points.delete(record.id);
        this.#usual.delete(record.id);
        this.#reached.delete(record.id);
        continue;
      }
      const now = { ms: this.#context.world.clock.monotonicMs(), step: this.reached(record) };
      const points = this.#points.get(record.id) ?? [];
      points.push(now);
      while (points.length > 2 && now.ms - (points[1]?.ms as number) > rateWindowMs) points.shift();
      this.#points.set(record.id, points);
      this.#noteUsual(record.id, now);
    }
  }

  /** Over the last seconds. */
  perSecond(session: string, step: number): number {
    return this.#perSecond(session, (from) => step - from);
  }

  /** What is learned from, over the last seconds. */
  samplesPerSecond(record: SessionRecord, step: number): number {
    return this.#perSecond(record.id, (from) => samplesBetween(record, from, step));
  }

  /** `since`: how much it has become since a step. */
  #perSecond(session: string, since: (step: number) => number): number {
    const first = this.#points.get(session)?.[0];
    const elapsedMs = first ? this.#context.world.clock.monotonicMs() - first.ms : 0;
    return first && elapsedMs > 0 ? (Math.max(0, since(first.step)) / elapsedMs) * 1000 : 0;
  }

  /** What a step takes when nothing is the matter; 0 until one was seen. */
  usualMs(session: string): number {
    return this.#usual.get(session)?.stepMs ?? 0;
  }

  #noteUsual(session: string, now: Point): void {
    const before = this.#usual.get(session);
    if (!before || now.step < before.step) this.#usual.set(session, { ...now, stepMs: before?.stepMs ?? 0 });
    else if (now.step > before.step) {
      const took = (now.ms - before.ms) / (now.step - before.step);
      const usual = before.stepMs || took;
      const stepMs = usual + usualWeight * (Math.min(took, usualGrowthMax * usual) - usual);
      this.#usual.set(session, { ...now, stepMs });
    }
  }

  #newestDurable(record: SessionRecord, vnode: string): number {
    const stored = this.#context.mirror.get(key.vnode(record.id, vnode));
    return Math.max(record.line, ...Object.keys(stored ? inTurn(stored, record).durable : {}).map(Number));
  }

  #progress(session: string, vnode: string): (Progress & { readonly pnode: PNodeId }) | undefined {
    const record = this.#context.mirror.get(key.vnode(session, vnode));
    let best: (Progress & { readonly pnode: PNodeId }) | undefined;
    for (const member of record?.members ?? []) {
      const progress = this.#heard.progress(member.pnode, session, vnode);
      if (progress && (!best || progress.step > best.step)) best = { ...progress, pnode: member.pnode };
    }
    return best;
  }
}
