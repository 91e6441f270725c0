// How fast a session learns, as metrics beside its loss: samples a second, and tokens where it learns from text. They
// tell of the machines that were there, so that two equal runs differ in them.

import { Recent } from "../../core/caches/recent.ts";
import { learnedBetween } from "../../network/rounds.ts";
import { samplesOf } from "../../network/settings/session.ts";
import type { Context } from "../context.ts";
import type { SessionRecord } from "../records/sessions.ts";
import { key } from "../records/store-keys.ts";
import type { MetricPoint, Metrics } from "../views/metrics.ts";
import type { Compiled } from "./compiled.ts";
import { roundsOf } from "./line.ts";

/** Shorter would measure how heartbeats fall. */
const spanMsLeast = 2_000;
/** Longer had a pause in it. */
const spanMsMost = 30_000;
const sessionsMax = 10_000;

/** All that lanes learn from in some steps: in a round some take fewer steps, some rest, and nobody learns in its last. */
export function samplesBetween(session: SessionRecord, from: number, to: number): number {
  const { identity } = session;
  return learnedBetween(identity, roundsOf(session), from, to) * samplesOf(identity);
}

export class Rates {
  readonly #context: Context;
  readonly #compiled: Compiled;
  readonly #metrics: Metrics;
  /** Where each session was when its rate was last measured. */
  readonly #marks = new Recent<string, { readonly step: number; readonly ms: number }>(sessionsMax);

  constructor(context: Context, compiled: Compiled, metrics: Metrics) {
    this.#context = context;
    this.#compiled = compiled;
    this.#metrics = metrics;
  }

  /** Metrics of a session have just arrived from a PNode. */
  note(session: string, points: readonly MetricPoint[]): void {
    const step = points.reduce((most, point) => (point.name === "loss" ? Math.max(most, point.step) : most), -1);
    if (step < 0) return;
    const ms = this.#context.world.clock.monotonicMs();
    const mark = this.#marks.get(session);
    const record = this.#context.mirror.get(key.session(session));
    if (mark && ms - mark.ms < spanMsLeast) return;
    this.#marks.set(session, { step, ms });
    // After a pause or a replay there is nothing to compare with.
    if (!record || !mark || step <= mark.step || ms - mark.ms > spanMsMost) return;
    const perSecond = (1000 * samplesBetween(record, mark.step, step)) / (ms - mark.ms);
    this.#context.tasks.run(`the rate of ${session}`, () => this.#add(record, step, perSecond));
  }

  async #add({ id, identity }: SessionRecord, step: number, samples: number): Promise<void> {
    const { inputs } = await this.#compiled.plan(identity.definition);
    const point = (name: string, value: number): MetricPoint => ({ name, step, value, vnode: "" });
    const points = [point("samples_per_second", samples)];
    if (inputs?.wire === "int32" && inputs.shape.length === 1)
      points.push(point("tokens_per_second", samples * (inputs.shape[0] ?? 1)));
    this.#metrics.add(id, points);
  }
}
