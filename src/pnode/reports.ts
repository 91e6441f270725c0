// What a PNode has to tell: metrics until a heartbeat that carries them is acknowledged, evidence until it is sent.
// Orchestrators save metrics in batches, and one may die before it does: what it acknowledged of late is told to the
// next one again, which knows what it has. Bounded, since orchestrators may be away for a long time.

import type { MessageInitShape } from "@bufbuild/protobuf";
import type { Clock } from "../core/world.ts";
import type { MetricSchema } from "../protocol/gen/dcnr/v1/common_pb.ts";
import type { EvidenceSchema } from "../protocol/gen/dcnr/v1/pnode_pb.ts";

export type Metric = MessageInitShape<typeof MetricSchema>;
export type Evidence = MessageInitShape<typeof EvidenceSchema>;

const metricsMax = 50_000;
const evidenceMax = 1_000;
/** Some times as long as an orchestrator takes to save what it has heard. */
const retoldMs = 10_000;
/** One heartbeat stays far below the limit of a message. */
const metricsPerBeat = 2_000;

export class Reports {
  readonly #clock: Clock;
  #acknowledged: { readonly atMs: number; readonly metrics: readonly Metric[] }[] = [];
  #metrics: Metric[] = [];
  /** How many metrics each unacknowledged heartbeat brought to the end of. */
  #sent: { sequence: bigint; count: number }[] = [];
  #evidence: Evidence[] = [];
  /** Something worth a heartbeat at once. */
  onUrgent: () => void = () => {};

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  metric(metric: Metric): void {
    if (this.#metrics.length >= metricsMax) {
      this.#metrics.shift();
      for (const sent of this.#sent) sent.count = Math.max(0, sent.count - 1);
    }
    this.#metrics.push(metric);
  }

  evidence(evidence: Evidence): void {
    if (this.#evidence.length >= evidenceMax) this.#evidence.shift();
    this.#evidence.push(evidence);
    this.onUrgent();
  }

  takeEvidence(): Evidence | undefined {
    return this.#evidence.shift();
  }

  giveBack(evidence: Evidence): void {
    this.#evidence.unshift(evidence);
  }

  /** The oldest metrics that nobody has acknowledged. */
  metricsFor(sequence: bigint): Metric[] {
    const chosen = this.#metrics.slice(0, metricsPerBeat);
    this.#sent.push({ sequence, count: chosen.length });
    return chosen;
  }

  acknowledged(sequence: bigint): void {
    const sent = this.#sent.find((entry) => entry.sequence === sequence);
    if (sent === undefined) return;
    this.#sent = this.#sent.filter((entry) => entry.sequence > sequence);
    const nowMs = this.#clock.monotonicMs();
    this.#acknowledged = this.#acknowledged.filter(({ atMs }) => nowMs - atMs < retoldMs);
    this.#acknowledged.push({ atMs: nowMs, metrics: this.#metrics.splice(0, sent.count) });
    for (const later of this.#sent) later.count = Math.max(0, later.count - sent.count);
  }

  /** A new stream: acknowledgements of the old one will not come, and recent ones may be worth nothing. */
  restart(): void {
    this.#sent = [];
    const nowMs = this.#clock.monotonicMs();
    const recent = this.#acknowledged.filter(({ atMs }) => nowMs - atMs < retoldMs).flatMap(({ metrics }) => metrics);
    this.#acknowledged = [];
    this.#metrics = [...recent, ...this.#metrics].slice(-metricsMax);
  }
}
