// One hosted VNode: a shell around the deterministic process that performs its effects. It loads the state of
// the recovery line, computes, sends, asks, and makes states durable; when told so it stops.

import { messageOf } from "../core/errors.ts";
import { sleep, type World, withFields } from "../core/world.ts";
import type { Effect, ProcessEvent } from "../vnode/effects.ts";
import type { Admission } from "../vnode/inbox.ts";
import type { MessageName } from "../vnode/names.ts";
import { performNumeric } from "../vnode/perform.ts";
import { edgeToward, type Role } from "../vnode/role.ts";
import type { Assignment } from "./assignment.ts";
import { Backoff } from "./backoff.ts";
import type { Exchange, Sender } from "./exchange.ts";
import type { HostShared } from "./host-shared.ts";
import { Impatience } from "./impatience.ts";
import { isPermanent, type Life, LostState, openLife, persistLife } from "./life.ts";
import { fromSource, toProtoName } from "./names.ts";
import { type PhaseAndDetail, phaseOf } from "./phase.ts";
import { evaluationMetrics, publishedMetrics } from "./published.ts";
import type { Asker, Receiver } from "./receiver.ts";
import type { Retention, StoredTensor } from "./retention.ts";
import type { SessionContext } from "./session-context.ts";

type Event = ProcessEvent<StoredTensor, Asker>;
type Numeric = Parameters<typeof performNumeric<StoredTensor>>[3];

export class VNodeHost implements Receiver {
  readonly #shared: HostShared;
  readonly #ending = new AbortController();
  readonly #world: World;
  readonly #impatience: Impatience;
  #assignment: Assignment;
  #life: Life | undefined;
  #loading: AbortController | undefined;
  #role: Role | undefined;
  #context: SessionContext | undefined;
  /** Why it does not run, for people; empty while it does. */
  #trouble = "";
  #failed = false;
  /** A checkpoint that is missing or damaged: orchestrators then fall back to the line before. */
  #damagedState = "";
  #events: Event[] = [];
  #handling = false;
  #line = 0;
  #stepMs = 0;
  #computedMs = 0;

  constructor(shared: HostShared, assignment: Assignment) {
    this.#shared = shared;
    this.#assignment = assignment;
    const { session, vnode } = assignment;
    this.#world = { ...shared.world, log: withFields(shared.world.log, { session, vnode }) };
    this.#impatience = new Impatience(this.#world, shared.timings, (attempt) => this.#overdue(attempt));
    this.#line = assignment.line;
    this.#load();
  }

  get assignment(): Assignment {
    return this.#assignment;
  }

  get failed(): boolean {
    return this.#failed;
  }

  /** A newer version of the same line of the list. The process goes on, unless it cannot. */
  reassign(told: Assignment): void {
    const before = this.#assignment;
    if (told.epoch < before.epoch) return;
    const assignment = withNewerLine(told, before);
    this.#assignment = assignment;
    const changed = assignment.line !== before.line || assignment.state !== before.state;
    const idle = this.#life === undefined && this.#loading === undefined;
    // A new turn: states of the line are lost, and everybody goes back to the one before.
    if (assignment.since > before.epoch || assignment.turn > before.turn) this.#restart();
    else if (idle && (changed || assignment.epoch > before.epoch)) this.#restart();
    else this.lineAdvanced(assignment.line, assignment.turn);
  }

  /** Lines of another turn say nothing: an earlier one is void, of a later one the next assignment will tell. */
  lineAdvanced(line: number, turn: number): void {
    if (turn !== this.#assignment.turn) return;
    this.#line = Math.max(this.#line, line);
    if (this.#life !== undefined) this.#post({ kind: "lineAdvanced", line });
  }

  setPaused(paused: boolean): void {
    if (this.#life !== undefined) this.#post({ kind: "pause", paused });
  }

  setFull(full: boolean): void {
    if (this.#life !== undefined) this.#post({ kind: "full", full });
  }

  async stop(): Promise<void> {
    this.#ending.abort();
    this.#impatience.stop();
    this.#loading?.abort();
    await this.#endLife();
  }

  // Starting

  #restart(): void {
    this.#failed = false;
    this.#damagedState = "";
    this.#line = this.#assignment.line;
    this.#shared.tasks.run("end a VNode's life", () => this.#endLife());
    this.#load();
  }

  #load(): void {
    this.#loading?.abort();
    const loading = new AbortController();
    this.#loading = loading;
    this.#trouble = "loading its state";
    const signal = AbortSignal.any([loading.signal, this.#ending.signal]);
    this.#shared.tasks.run(`load VNode ${this.#assignment.vnode}`, async () => {
      const backoff = new Backoff(this.#shared.timings.retryMinMs, this.#shared.timings.retryMaxMs, this.#world.chance);
      while (!signal.aborted) {
        try {
          const { session, vnode } = this.#assignment;
          const life = await openLife(
            this.#shared,
            this.#assignment,
            `${session}/${vnode}/${this.#shared.lifeNumber()}`,
            signal,
          );
          if (life !== undefined) this.#begin(life);
          break;
        } catch (error) {
          if (signal.aborted) break;
          this.#trouble = messageOf(error);
          this.#failed = isPermanent(error);
          this.#damagedState = error instanceof LostState ? error.state : "";
          if (this.#failed) {
            this.#world.log("error", `cannot start: ${this.#trouble}`, { step: this.#assignment.line });
            this.#shared.reports.onUrgent();
            // A lost blob may be found again, or the line moves; anything else stays as it is.
            if (this.#damagedState === "") break;
          }
          await sleep(this.#world.timers, backoff.next(), signal);
        }
      }
      if (this.#loading === loading) this.#loading = undefined;
    });
  }

  #begin(life: Life): void {
    this.#life = life;
    this.#loading = undefined;
    this.#role = life.role;
    this.#context = life.context;
    this.#trouble = "";
    this.#failed = false;
    this.#damagedState = "";
    this.#impatience.progress();
    this.#impatience.start();
    this.#post({ kind: "lineAdvanced", line: this.#line });
    if (this.#shared.retention.full) this.#post({ kind: "full", full: true });
    this.#post({ kind: "start" });
  }

  async #endLife(): Promise<void> {
    const life = this.#life;
    this.#life = undefined;
    this.#events = [];
    if (life === undefined) return;
    life.ending.abort();
    for (const payload of life.process.payloads()) this.#shared.retention.release(payload);
    await life.compute.close();
  }

  // Receiving

  expects(name: MessageName) {
    const [role, context] = [this.#role, this.#context];
    const edge = role && edgeToward(role, name.edge, name.direction);
    if (edge === undefined || context === undefined) return undefined;
    const shape = edge.kind === "tie" ? edge.shape : [context.samples, ...edge.shape];
    return { wire: edge.wire, shape, from: name.direction === "forward" ? edge.from : edge.to };
  }

  admit(name: MessageName, hash: string): Admission | "loading" {
    return this.#life?.process.admit(name, hash) ?? "loading";
  }

  receive(name: MessageName, hash: string, tensor: StoredTensor | undefined, from: string): void {
    if (this.#life === undefined) return;
    if (this.#life.process.admit(name, hash) === "wanted") this.#impatience.progress();
    this.#post({ kind: "arrived", name, hash, payload: tensor, from });
  }

  asked(names: readonly MessageName[], asker: Asker): void {
    // While it loads, it cannot know; it will send everything from the line on by itself.
    if (this.#life === undefined) asker.answer("coming");
    else this.#post({ kind: "asked", names, asker });
  }

  // The process

  #post(event: Event): void {
    this.#events.push(event);
    if (this.#handling) return;
    this.#handling = true;
    try {
      for (let next = this.#events.shift(); next !== undefined; next = this.#events.shift()) {
        const life = this.#life;
        if (life === undefined) break;
        for (const effect of life.process.step(next)) this.#perform(life, effect);
      }
    } catch (error) {
      this.#fail(messageOf(error));
    } finally {
      this.#handling = false;
    }
  }

  #perform(life: Life, effect: Effect<StoredTensor, Asker>): void {
    switch (effect.kind) {
      case "forward":
      case "backward":
      case "shareWeights":
      case "computeTieGradients":
      case "update":
        this.#compute(life, effect);
        break;
      case "accumulate":
        life.compute.accumulate(effect.microbatch);
        break;
      case "send":
        this.#shared.exchange.send(this.#sender(), effect.message);
        break;
      case "deliver":
        effect.asker.deliver(effect.message);
        break;
      case "answer":
        effect.asker.answer(effect.outcome);
        break;
      case "ask":
        this.#ask(life, effect.whom, effect.names, 0);
        break;
      case "persist":
        this.#persist(life, effect.step);
        break;
      case "publish":
        this.#publish(life, effect.step, effect.hash, effect.measures);
        break;
      case "publishEvaluation":
        for (const metric of evaluationMetrics(this.#sender(), effect)) this.#shared.reports.metric(metric);
        break;
      case "collect":
        for (const payload of effect.released) this.#shared.retention.release(payload);
        break;
      case "evidence": {
        const { session } = this.#assignment;
        const witness = ({ from, hash }: { from: string; hash: string }) => ({ ...fromSource(from), hash });
        this.#world.log("error", `two contents for step ${effect.name.step} on ${effect.name.edge}`, {
          step: effect.name.step,
        });
        this.#shared.reports.evidence({
          name: toProtoName(session, effect.name),
          first: witness(effect.first),
          second: witness(effect.second),
        });
        break;
      }
      case "restart":
        this.#restartAtNewerLine(life);
        break;
      case "fail":
        this.#fail(effect.reason);
        break;
      case "receipt":
      case "done":
        break;
    }
  }

  #sender(): Sender {
    const { session, vnode, epoch } = this.#assignment;
    return { session, vnode, epoch };
  }

  #compute(life: Life, effect: Numeric): void {
    const startedMs = this.#world.clock.monotonicMs();
    const startWallMs = this.#world.clock.wallMs();
    const keeping = {
      keep: (tensor: Parameters<Retention["keep"]>[0]) => this.#shared.retention.keep(tensor),
      load: (stored: StoredTensor) => stored.load(),
    };
    this.#shared.tasks.run(`${effect.kind} of VNode ${this.#assignment.vnode}`, async () => {
      let event: Event;
      try {
        event = await performNumeric(life.compute, life.role, keeping, effect);
      } catch (error) {
        if (this.#life !== life) return;
        if (!isPermanent(error)) {
          await this.#endLife();
          this.#loadLater(messageOf(error));
          return;
        }
        event = { kind: "failed", reason: messageOf(error) };
      }
      if (this.#life !== life) {
        this.#discard(event);
        return;
      }
      const durationMs = this.#world.clock.monotonicMs() - startedMs;
      this.#tellWork(effect, event, startWallMs, durationMs);
      this.#computedMs += durationMs;
      this.#impatience.progress();
      this.#post(event);
    });
  }

  #tellWork(effect: Numeric, event: Event, startWallMs: number, durationMs: number): void {
    const { session, vnode } = this.#assignment;
    this.#shared.onWork?.({
      ...{ kind: effect.kind, session, vnode, step: effect.step, startWallMs, durationMs },
      ...("microbatch" in effect ? { microbatch: effect.microbatch } : {}),
      ...(event.kind === "failed" ? { failure: event.reason } : {}),
    });
  }

  /** Results of a life that has ended are not retained. */
  #discard(event: Event): void {
    const kept =
      event.kind === "forwardDone"
        ? event.outputs
        : event.kind === "weightsShared"
          ? event.weights
          : event.kind === "backwardDone" || event.kind === "tieGradientsDone"
            ? event.gradients
            : new Map<string, { payload: StoredTensor }>();
    for (const { payload } of kept.values()) this.#shared.retention.release(payload);
  }

  #publish(life: Life, step: number, hash: string, measures: Readonly<Record<string, number>>): void {
    life.hashes.push({ step, hash });
    this.#stepMs = this.#computedMs;
    this.#computedMs = 0;
    for (const metric of publishedMetrics(this.#sender(), step, measures)) this.#shared.reports.metric(metric);
  }

  // Asking

  #overdue(attempt: number): void {
    const life = this.#life;
    if (life === undefined || !life.process.idle || life.process.ended !== "no") return;
    if (attempt === 0) {
      this.#post({ kind: "overdue" });
      return;
    }
    if (this.#shared.rules?.ask === false) return;
    for (const { whom, names } of life.process.missing()) this.#ask(life, whom, names, attempt);
  }

  #ask(life: Life, whom: Parameters<Exchange["ask"]>[1], names: readonly MessageName[], attempt: number): void {
    this.#shared.exchange.ask(this.#sender(), whom, names, attempt, (outcome) => {
      if (outcome !== "gone" || this.#life !== life) return;
      const step = names.reduce((lowest, name) => Math.min(lowest, name.step), Number.POSITIVE_INFINITY);
      this.#post({ kind: "gone", step });
    });
  }

  /** A neighbour has collected what this life needs: the line has moved on, and so must the start. */
  #restartAtNewerLine(life: Life): void {
    this.#shared.tasks.run("end a VNode's life", () => this.#endLife());
    if (this.#assignment.line > life.start) this.#load();
    else this.#loadLater(`for a recovery line above ${life.start}`);
  }

  /** Unless a newer assignment comes first. */
  #loadLater(trouble: string): void {
    this.#trouble = trouble;
    this.#shared.tasks.run(`load VNode ${this.#assignment.vnode} later`, async () => {
      await sleep(this.#world.timers, this.#shared.timings.askMaxMs, this.#ending.signal);
      if (this.#ending.signal.aborted || this.#failed) return;
      if (this.#life === undefined && this.#loading === undefined) this.#load();
    });
  }

  // Persisting

  #persist(life: Life, step: number): void {
    const { session, vnode } = this.#assignment;
    const signal = AbortSignal.any([life.ending.signal, this.#ending.signal]);
    const epoch = () => this.#assignment.epoch;
    this.#shared.tasks.run(`checkpoint of VNode ${vnode} at step ${step}`, async () => {
      const options = { ...this.#shared, world: this.#world, session, vnode, signal, epoch };
      const recorded = await persistLife(options, life, step, this.#shared.flush);
      if (recorded === undefined || this.#life !== life) return;
      if (recorded.kind === "fenced") this.#fenced();
      else if (recorded.kind === "failed") this.#post({ kind: "failed", reason: recorded.reason });
      else {
        this.#post({ kind: "persisted", step });
        this.#shared.onLine(session, recorded.line, recorded.turn);
      }
    });
  }

  #fenced(): void {
    if (!this.#shared.shell.stopWhenFenced) return;
    this.#world.log("info", "another owner has taken over: stopping");
    this.#shared.onFenced(this.#assignment);
  }

  #fail(reason: string): void {
    this.#failed = true;
    this.#trouble = reason;
    this.#world.log("error", reason, { step: this.#life?.process.currentStep });
    this.#shared.tasks.run("end a VNode's life", () => this.#endLife());
    this.#shared.reports.onUrgent();
  }

  // Telling

  progress() {
    const { session, vnode, epoch } = this.#assignment;
    const process = this.#life?.process;
    const { phase, detail } = this.#phase();
    const step = BigInt(process?.currentStep ?? this.#assignment.line);
    const damagedState = phase === "failed" ? this.#damagedState : "";
    return { session, vnode, epoch: BigInt(epoch), step, phase, detail, stepMs: this.#stepMs, damagedState };
  }

  #phase(): PhaseAndDetail {
    if (this.#failed) return { phase: "failed", detail: this.#trouble };
    const process = this.#life?.process;
    if (process === undefined) return { phase: "loading", detail: this.#trouble };
    const { exchange, retention } = this.#shared;
    return phaseOf(process, {
      waitedMs: this.#impatience.waitedMs,
      retentionFull: retention.full,
      ownerOf: (vnode) => exchange.ownerOf(this.#assignment.session, vnode),
    });
  }
}

/** An orchestrator whose view is behind may tell an older line under a newer epoch. */
function withNewerLine(told: Assignment, before: Assignment): Assignment {
  const isOlder = told.turn < before.turn || (told.turn === before.turn && told.line < before.line);
  if (!isOlder) return told;
  const { turn, line, state } = before;
  return { ...told, turn, line, state };
}
