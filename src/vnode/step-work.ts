// How far one VNode is within one step: which microbatches ran forward and backward, what runs now, what was
// measured. Decides nothing; process.ts does.

import { assert } from "../core/assert.ts";
import type { PlanEdge } from "../network/plan.ts";
import type { RoundBook } from "./book.ts";
import type { Measures } from "./effects.ts";
import { type Across, acrossLanes } from "./lanes/across-lanes.ts";
import { wholeStep } from "./names.ts";
import type { Role } from "./role.ts";
import { evaluationCount, type Schedule, trainingCount } from "./schedule.ts";

type Once = "share" | "tieGradients" | "parts" | "sum" | "update" | "persist";

export class StepWork {
  readonly step: number;
  readonly #training: number;
  readonly #evaluations: number;
  readonly #firstEvaluation: number;
  readonly #role: Role;
  readonly #across: () => Across;
  #trainingStarted = 0;
  #evaluationsStarted = 0;
  readonly #forwardDone = new Set<number>();
  readonly #backwardStarted = new Set<number>();
  readonly #backwardDone = new Set<number>();
  #accumulated = 0;
  readonly #begun = new Set<Once>();
  readonly #finished = new Set<Once>();
  readonly #measures = new Map<number, Measures>();
  running = 0;

  constructor(schedule: Schedule, step: number, role: Role, book: RoundBook) {
    this.step = step;
    this.#role = role;
    this.#training = trainingCount(schedule, step, book);
    this.#evaluations = evaluationCount(schedule, step, book);
    this.#firstEvaluation = schedule.microbatches;
    this.#across = () => acrossLanes(role, schedule, step, book);
  }

  /** What is added up with other lanes; at a round's end nothing before it is closed. */
  get across(): Across {
    return this.#across();
  }

  /** Nobody learns in it, or only others do. */
  get rests(): boolean {
    return this.#training === 0;
  }

  /** The weights are evaluated as they are before it. */
  get evaluates(): boolean {
    return this.#evaluations > 0;
  }

  get sharePending(): boolean {
    return this.#role.tiesOut.length > 0 && this.#training + this.#evaluations > 0 && !this.#begun.has("share");
  }

  get sharedAll(): boolean {
    return !this.sharePending && this.#begun.has("share") === this.#finished.has("share");
  }

  get tieGradientsPending(): boolean {
    return this.#training > 0 && this.#role.tiesIn.some((edge) => edge.gradient) && !this.#begun.has("tieGradients");
  }

  get trainingDone(): boolean {
    if (this.#begun.has("update")) return false;
    if (this.#role.learns) return this.#accumulated === this.#training;
    return this.#trainingForwards() === this.#training;
  }

  get evaluationDone(): boolean {
    return this.#forwardDone.size - this.#trainingForwards() === this.#evaluations;
  }

  #trainingForwards(): number {
    let count = 0;
    for (const microbatch of this.#forwardDone) if (microbatch < this.#firstEvaluation) count++;
    return count;
  }

  /** The next training microbatch, in order, while fewer than `window` are between forward and backward. */
  nextTraining(window: number): number | undefined {
    const inFlight = this.#trainingStarted - this.#backwardDone.size;
    return this.#trainingStarted < this.#training && inFlight < window ? this.#trainingStarted : undefined;
  }

  nextEvaluation(): number | undefined {
    return this.#evaluationsStarted < this.#evaluations ? this.#firstEvaluation + this.#evaluationsStarted : undefined;
  }

  backwardCandidates(): number[] {
    if (!this.#role.learns) return [];
    const candidates = [];
    for (const microbatch of this.#forwardDone)
      if (microbatch < this.#training && !this.#backwardStarted.has(microbatch)) candidates.push(microbatch);
    return candidates.sort((a, b) => a - b);
  }

  /** Microbatches whose message on such an edge this step needs, received or not. */
  microbatchesNeeded(edge: PlanEdge, direction: "forward" | "backward"): number[] {
    const { kind } = edge;
    if (kind === "reduce" || kind === "outer") {
      const { of, ins, outs } = this.across;
      return of === kind && (direction === "forward" ? ins : outs).includes(edge) ? [wholeStep] : [];
    }
    const training = Array.from({ length: this.#training }, (_, index) => index);
    const evaluation = Array.from({ length: this.#evaluations }, (_, index) => this.#firstEvaluation + index);
    const all = direction === "forward" ? [...training, ...evaluation] : training;
    if (kind === "tie") return all.length > 0 ? [wholeStep] : [];
    return all;
  }

  beginForward(microbatch: number): void {
    if (microbatch < this.#firstEvaluation) this.#trainingStarted++;
    else this.#evaluationsStarted++;
    this.running++;
  }

  forwardDone(step: number, microbatch: number, measures: Measures): void {
    assert(step === this.step, `forward of step ${step} ends in step ${this.step}`);
    this.running--;
    this.#forwardDone.add(microbatch);
    this.#measures.set(microbatch, measures);
  }

  beginBackward(microbatch: number): void {
    this.#backwardStarted.add(microbatch);
    this.running++;
  }

  /** Returns the microbatches whose gradients may be added now, in the order in which to add them. */
  backwardDone(step: number, microbatch: number): number[] {
    assert(step === this.step, `backward of step ${step} ends in step ${this.step}`);
    this.running--;
    this.#backwardDone.add(microbatch);
    const ready = [];
    while (this.#backwardDone.has(this.#accumulated)) ready.push(this.#accumulated++);
    return ready;
  }

  once(what: Once): boolean {
    if (this.#begun.has(what)) return false;
    this.#begun.add(what);
    return true;
  }

  hasBegun(what: Once): boolean {
    return this.#begun.has(what);
  }

  hasFinished(what: Once): boolean {
    return this.#finished.has(what);
  }

  begin(what: Once): void {
    assert(this.once(what), `${what} of step ${this.step} begins once`);
    this.running++;
  }

  finish(what: Once): void {
    this.#finished.add(what);
    this.running--;
  }

  /** Means over the microbatches of one kind, added in microbatch order. */
  measured(mode: "training" | "evaluation"): Record<string, number> {
    const chosen = [...this.#measures.entries()]
      .filter(([microbatch]) => microbatch < this.#firstEvaluation === (mode === "training"))
      .sort(([a], [b]) => a - b);
    const means: Record<string, number> = {};
    for (const [, measures] of chosen)
      for (const [name, value] of Object.entries(measures)) means[name] = (means[name] ?? 0) + value / chosen.length;
    return means;
  }
}
