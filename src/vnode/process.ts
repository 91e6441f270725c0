// The deterministic process of one VNode: events in, effects out, no I/O, no clock. What it sends and what it
// becomes depend on its state and on the named messages alone; the order of events changes only when things happen.

import { assert, unreachable } from "../core/assert.ts";
import { checkpointDue } from "../network/checkpoints.ts";
import type { PlanEdge } from "../network/plan.ts";
import type { ToldRound } from "../network/rounds.ts";
import { type LaneClasses, RoundBook } from "./book.ts";
import type { Effect, Measures, ProcessEvent } from "./effects.ts";
import { type Admission, Inbox } from "./inbox.ts";
import { nextAddition, shapeAcross, takeSums } from "./lanes/across-lanes.ts";
import { Listening, type Missing } from "./listening.ts";
import { Mail } from "./mail.ts";
import { type Direction, type MessageName, type Sealed, wholeStep } from "./names.ts";
import { Outbox } from "./outbox.ts";
import type { Role } from "./role.ts";
import { addedUpIn, reachableFrom, type Schedule } from "./schedule.ts";
import { StepWork } from "./step-work.ts";

export interface ProcessOptions {
  readonly role: Role;
  readonly schedule: Schedule;
  /** The step whose state the VNode starts from: the recovery line. */
  readonly line: number;
  /** Microbatches that may run side by side; never changes a result. */
  readonly parallel: number;
  /** Snapshots that may wait for their upload before the next one is taken. */
  readonly persistsPendingMax: number;
  /** What is known of rounds when it starts. */
  readonly rounds?: readonly ToldRound[];
  /** Where each lane has its own. */
  readonly classes?: LaneClasses;
  readonly parts?: Partial<ProcessParts>;
}

/** What a process is made of. Whoever gives others decides what they break. */
export interface ProcessParts {
  openListening<Payload>(role: Role, inbox: Inbox<Payload>): Listening<Payload>;
  openOutbox<Payload>(line: number): Outbox<Payload>;
  openWork(schedule: Schedule, step: number, role: Role, book: RoundBook): StepWork;
}

const usualParts: ProcessParts = {
  openListening: (role, inbox) => new Listening(role, inbox),
  openOutbox: (line) => new Outbox(line),
  openWork: (schedule, step, role, book) => new StepWork(schedule, step, role, book),
};

/** Of the round that a VNode is in: who learns what, whose work counts, and, for a lane that has no part in it, what comes of it. */
export type RoundNews = "plan" | "closing" | "end";

/** A process as its host knows it. */
export interface VNodeProcess<Payload, Asker> {
  /** Updates applied so far. */
  readonly currentStep: number;
  readonly line: number;
  readonly ended: "no" | "done" | "failed" | "restart";
  /** True while nothing of it computes: if it has not ended, it waits. */
  readonly idle: boolean;
  /** True while it asks for messages that were sent before it began to listen. */
  readonly catchingUp: boolean;
  /** What orchestrators have to say of its round before it goes on; undefined if it is not that. */
  readonly awaits: RoundNews | undefined;
  admit(name: MessageName, hash: string): Admission;
  /** Names of the current step that are still to come, by who sends them. */
  missing(): readonly Missing[];
  /** What travels on such an edge at a round's end: the shard depends on whose work counts. */
  outerShape(edge: PlanEdge, step: number): readonly number[];
  /** Everything it holds, for a host that gives it up. */
  payloads(): Payload[];
  step(event: ProcessEvent<Payload, Asker>): readonly Effect<Payload, Asker>[];
}

export type OpenProcess = <Payload, Asker>(options: ProcessOptions) => VNodeProcess<Payload, Asker>;

export const openProcess: OpenProcess = (options) => new Process(options);

/** Without gradients nothing holds a VNode back, so the line does. */
const stepsBeyondLineMax = 64;

export class Process<Payload, Asker> implements VNodeProcess<Payload, Asker> {
  readonly #role: Role;
  readonly #schedule: Schedule;
  readonly #options: ProcessOptions;
  readonly #parts: ProcessParts;
  readonly #mail: Mail<Payload, Asker>;
  readonly #listening: Listening<Payload>;
  readonly #persisting = new Set<number>();
  #effects: Effect<Payload, Asker>[] = [];
  #step: number;
  #work: StepWork;
  readonly #book: RoundBook;
  /** It was known what happens in this step when it was entered. */
  #isPlanned = true;
  #started = false;
  #full = false;
  /** How far it goes on from a line. */
  #reach = { line: -1, step: 0 };
  /** Microbatches between forward and backward. Changes when things happen, never what they are. */
  #window: number;
  #paused = false;
  #ended: "no" | "done" | "failed" | "restart" = "no";

  constructor(options: ProcessOptions) {
    this.#options = options;
    this.#role = options.role;
    this.#schedule = options.schedule;
    this.#parts = { ...usualParts, ...options.parts };
    this.#step = options.line;
    this.#window = options.role.window;
    this.#book = new RoundBook(options.schedule, options.role.copy, options.classes);
    this.#book.tell(options.rounds ?? []);
    this.#work = this.#parts.openWork(options.schedule, options.line, options.role, this.#book);
    const inbox = new Inbox<Payload>(options.role, options.schedule, this.#book);
    this.#listening = this.#parts.openListening(options.role, inbox);
    this.#mail = new Mail({
      ...{ inbox, outbox: this.#parts.openOutbox<Payload>(options.line), listening: this.#listening },
      ...{ steps: options.schedule.steps, line: options.line, emit: (effect) => this.#emit(effect) },
    });
  }

  get currentStep(): number {
    return this.#step;
  }

  get line(): number {
    return this.#mail.line;
  }

  get ended(): "no" | "done" | "failed" | "restart" {
    return this.#ended;
  }

  get idle(): boolean {
    return this.#work.running === 0;
  }

  get catchingUp(): boolean {
    return this.#options.line > 0 && this.#listening.pulled.size > 0 && this.#mail.isPulled(this.missing());
  }

  get awaits(): RoundNews | undefined {
    if (!this.#isPlanned) return "plan";
    if (this.#book.isOut(this.#step)) return "end";
    return this.#work.trainingDone && this.#work.sharedAll && this.#waitsForClosing() ? "closing" : undefined;
  }

  admit(name: MessageName, hash: string): Admission {
    return this.#mail.admit(name, hash, this.#step);
  }

  outerShape(edge: PlanEdge, step: number): readonly number[] {
    return shapeAcross(edge, this.#role, this.#book.counted(step));
  }

  payloads(): Payload[] {
    return this.#mail.payloads();
  }

  step(event: ProcessEvent<Payload, Asker>): readonly Effect<Payload, Asker>[] {
    assert(this.#effects.length === 0, "one event is handled at a time");
    this.#handle(event);
    if (this.#started && this.#ended === "no") this.#advance();
    const effects = this.#effects;
    this.#effects = [];
    return effects;
  }

  #handle(event: ProcessEvent<Payload, Asker>): void {
    switch (event.kind) {
      case "start":
        this.#started = true;
        this.#enterStep();
        break;
      case "arrived":
        this.#emit({ kind: "receipt", verdict: this.#mail.receive(event, this.#step) });
        break;
      case "forwardDone":
        this.#work.forwardDone(event.step, event.microbatch, event.measures);
        this.#sendOutputs(event.microbatch, event.outputs);
        break;
      case "backwardDone":
        this.#backwardDone(event.step, event.microbatch, event.gradients);
        break;
      case "weightsShared":
        this.#work.finish("share");
        for (const edge of this.#role.tiesOut) this.#send(edge, "forward", wholeStep, event.weights.get(edge.fromPort));
        break;
      case "tieGradientsDone":
        this.#work.finish("tieGradients");
        for (const edge of this.#role.tiesIn)
          if (edge.gradient) this.#send(edge, "backward", wholeStep, event.gradients.get(edge.toPort));
        break;
      case "partsDone":
        this.#work.finish("parts");
        for (const edge of this.#work.across.outs)
          this.#send(edge, "forward", wholeStep, event.parts.get(edge.fromPort));
        break;
      case "sumDone":
        this.#work.finish("sum");
        for (const edge of this.#work.across.ins) this.#send(edge, "backward", wholeStep, event.sum);
        break;
      case "outerDone":
        this.#stepDone(event.step, event.hash, {});
        break;
      case "updateDone":
        this.#stepDone(event.step, event.hash, event.measures);
        break;
      case "rounds":
        this.#book.tell(event.rounds);
        if (this.#started && !this.#isPlanned) this.#enterStep();
        break;
      case "persisted":
        this.#persisting.delete(event.step);
        break;
      case "lineAdvanced":
        this.#mail.lineAdvanced(event.line);
        // Whoever has no part in a round goes on from where the others have come to.
        if (this.#ended === "no" && this.#book.isOut(this.#step) && event.line > this.#step)
          this.#end("restart", { kind: "restart" });
        break;
      case "drawn":
        this.#mail.lock(event.drawn);
        break;
      case "asked":
        this.#mail.asked(event.names, event.asker);
        break;
      case "gone":
        // An answer to an ask of long ago says nothing about what is needed now.
        if (event.step === this.#step && this.#ended === "no") this.#end("restart", { kind: "restart" });
        break;
      case "overdue":
        if (this.#ended === "no") this.#mail.askForAll(this.missing());
        break;
      case "full":
        this.#full = event.full;
        break;
      case "window":
        this.#window = Math.max(this.#role.window, event.microbatches);
        break;
      case "pause":
        this.#paused = event.paused;
        break;
      case "failed":
        this.#end("failed", { kind: "fail", reason: event.reason });
        break;
      default:
        unreachable(event, "process event");
    }
  }

  missing(): readonly Missing[] {
    return this.#listening.missing(this.#work);
  }

  #send(edge: PlanEdge, direction: Direction, microbatch: number, sealed?: Sealed<Payload>): void {
    this.#mail.send(this.#step, edge, direction, microbatch, sealed);
  }

  #sendOutputs(microbatch: number, outputs: ReadonlyMap<string, Sealed<Payload>>): void {
    for (const edge of this.#role.activationsOut) this.#send(edge, "forward", microbatch, outputs.get(edge.fromPort));
  }

  #backwardDone(step: number, microbatch: number, gradients: ReadonlyMap<string, Sealed<Payload>>): void {
    for (const ready of this.#work.backwardDone(step, microbatch))
      this.#emit({ kind: "accumulate", step, microbatch: ready });
    for (const edge of this.#role.activationsIn)
      if (edge.gradient) this.#send(edge, "backward", microbatch, gradients.get(edge.toPort));
  }

  #stepDone(step: number, hash: string, measures: Measures): void {
    assert(step === this.#step, `update of step ${step} ends in step ${this.#step}`);
    const trained = this.#work.measured("training");
    this.#publishEvaluation();
    this.#step = step + 1;
    this.#emit({ kind: "publish", step: this.#step, hash, measures: { ...trained, ...measures } });
    // The last state is persisted once it is evaluated, so that a line at the end means that all is done.
    if (checkpointDue(this.#schedule, this.#step) && this.#step < this.#schedule.steps) this.#persist();
    this.#enterStep();
  }

  #publishEvaluation(): void {
    if (this.#work.evaluates)
      this.#emit({ kind: "publishEvaluation", step: this.#step, measures: this.#work.measured("evaluation") });
  }

  #persist(): void {
    this.#persisting.add(this.#step);
    this.#emit({ kind: "persist", step: this.#step });
  }

  #enterStep(): void {
    this.#isPlanned = this.#book.isPlanned(this.#step);
    this.#work = this.#parts.openWork(this.#schedule, this.#step, this.#role, this.#book);
    this.#mail.askForPulled(this.missing());
  }

  /** Starts whatever may start now: backward first, then forward, then evaluation, then what ends the step. */
  #advance(): void {
    if (this.#paused || !this.#isPlanned || this.#book.isOut(this.#step)) return;
    while (this.#work.running < this.#options.parallel) if (!this.#startOne()) break;
    this.#endStep();
  }

  #startOne(): boolean {
    const work = this.#work;
    if (work.sharePending && this.#mayStartStep()) {
      work.begin("share");
      this.#emit({ kind: "shareWeights", step: this.#step });
      return true;
    }
    for (const microbatch of work.backwardCandidates()) if (this.#startBackward(microbatch)) return true;
    if (!this.#mayStartStep()) return false;
    const training = work.nextTraining(this.#role.learns ? this.#window : Number.POSITIVE_INFINITY);
    if (training !== undefined && this.#startForward(training, "training")) return true;
    const evaluation = work.nextEvaluation();
    return evaluation !== undefined && this.#startForward(evaluation, "evaluation");
  }

  /** A full store of retained messages holds a VNode back, but never before the checkpoint that would empty it. */
  #mayStartStep(): boolean {
    const { restAfter } = this.#schedule;
    if (restAfter !== undefined && this.#step > restAfter) return false;
    if (this.#reach.line !== this.line)
      this.#reach = { line: this.line, step: reachableFrom(this.#schedule, this.line) };
    return this.#step < this.#reach.step + (this.#full ? 0 : stepsBeyondLineMax);
  }

  #startForward(microbatch: number, mode: "training" | "evaluation"): boolean {
    const inputs = this.#listening.takeInputs(this.#step, microbatch);
    if (inputs === undefined) return false;
    this.#work.beginForward(microbatch);
    const sample = mode === "training" ? this.#book.sampleOf(this.#step, microbatch) : undefined;
    this.#emit({ kind: "forward", step: this.#step, microbatch, mode, sample, inputs });
    return true;
  }

  #startBackward(microbatch: number): boolean {
    const gradients = this.#listening.takeGradients(this.#role.activationsOut, this.#step, microbatch);
    if (gradients === undefined) return false;
    this.#work.beginBackward(microbatch);
    this.#emit({ kind: "backward", step: this.#step, microbatch, gradients });
    return true;
  }

  /** What comes after the last microbatch: gradients of tied weights, the update, or the end. */
  #endStep(): void {
    const work = this.#work;
    if (work.running > 0) return;
    if (this.#step === this.#schedule.steps) {
      this.#endSession();
      return;
    }
    if (work.tieGradientsPending && work.trainingDone) {
      work.begin("tieGradients");
      this.#emit({ kind: "computeTieGradients", step: this.#step });
      return;
    }
    if (!work.trainingDone || !work.sharedAll || this.#waitsForClosing()) return;
    this.#addUp();
    if (work.running > 0 || !work.evaluationDone) return;
    if (checkpointDue(this.#schedule, this.#step + 1) && this.#persisting.size >= this.#options.persistsPendingMax)
      return;
    const last = this.#lastOfStep();
    if (last === undefined) return;
    this.#mail.dropTies(this.#step);
    work.begin("update");
    this.#emit(last);
  }

  /** Nobody tells what it learned in a round before it is known whose work counts. */
  #waitsForClosing(): boolean {
    return addedUpIn(this.#schedule, this.#step) === "outer" && !this.#book.isClosed(this.#step);
  }

  /** Begins what copies in other lanes are waiting for, or what theirs make possible. */
  #addUp(): void {
    const next = nextAddition(this.#work.across, this.#work, this.#listening, this.#role.tiesOut);
    if (next === undefined) return;
    this.#work.begin(next.kind === "reduceParts" ? "parts" : "sum");
    this.#emit(next);
  }

  /** What makes the next state of this one; undefined while something of others is missing. */
  #lastOfStep(): Effect<Payload, Asker> | undefined {
    const { across, rests } = this.#work;
    const step = this.#step;
    if (across.of !== undefined) {
      const sums = takeSums(across, this.#work, this.#listening);
      if (sums === undefined) return undefined;
      return across.of === "outer"
        ? { kind: "outer", step, sums, counted: across.counted }
        : { kind: "update", step, ties: [], sums };
    }
    if (rests) return { kind: "rest", step };
    const ties = this.#listening.takeGradients(this.#role.tiesOut, step, wholeStep);
    return ties && { kind: "update", step, ties, sums: [] };
  }

  #endSession(): void {
    if (!this.#work.evaluationDone || !this.#work.sharedAll) return;
    if (this.#work.once("persist") && this.#step > this.#options.line) {
      this.#publishEvaluation();
      this.#persist();
    }
    if (this.#persisting.size > 0) return;
    this.#end("done", { kind: "done" });
  }

  #end(how: "done" | "failed" | "restart", effect: Effect<Payload, Asker>): void {
    this.#ended = how;
    this.#emit(effect);
  }

  #emit(effect: Effect<Payload, Asker>): void {
    this.#effects.push(effect);
  }
}
