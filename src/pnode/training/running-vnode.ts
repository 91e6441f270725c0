// Performs the effects of one life of a VNode: computes, sends, asks, makes states durable, and posts what comes of it
// back to the deterministic process. When it ends, nothing that is still under way can change anything.

import { messageOf, outlookOf } from "../../core/errors.ts";
import type { SessionId } from "../../core/ids.ts";
import type { Tasks } from "../../core/tasks.ts";
import type { World } from "../../core/world.ts";
import type { Effect, ProcessEvent, Verdict } from "../../vnode/effects.ts";
import type { Admission } from "../../vnode/inbox.ts";
import type { MessageName } from "../../vnode/names.ts";
import { isNumeric, isOfTies, performNumeric } from "../../vnode/perform.ts";
import type { PerformedWork, Timings } from "../options.ts";
import type { Reports } from "../reports.ts";
import type { ToldLine } from "../told-line.ts";
import { discard } from "./discard.ts";
import type { Exchange, Sender } from "./exchange.ts";
import { type EvidenceFound, Hearing } from "./hearing.ts";
import { Impatience } from "./impatience.ts";
import type { Life, Persisted } from "./life.ts";
import type { Locker } from "./locker.ts";
import { fromSource, toProtoName } from "./names.ts";
import { Pace } from "./pace.ts";
import { type PhaseAndDetail, phaseOf } from "./phase.ts";
import { evaluationMetrics, publishedMetrics } from "./published.ts";
import { Questions } from "./questions.ts";
import type { Arrival, Asker } from "./receiver.ts";
import type { Retention, StoredTensor } from "./retention.ts";

type Event = ProcessEvent<StoredTensor, Asker>;
type Numeric = Parameters<typeof performNumeric<StoredTensor>>[3];

/** What the host does about it; the life has not ended yet when it hears. */
export interface Owner {
  /** Under the epoch of now: it may grow within one life. */
  readonly sender: () => Sender;
  /** Cannot go on, and starting again would not help; elsewhere it would, where this PNode has no room. */
  readonly onFailed: (reason: string, noRoom?: boolean) => void;
  /** Something passing went wrong: another life may do better. */
  readonly onBroken: (reason: string) => void;
  /** A neighbour has collected what this life needs: the line has moved on, and so must the start. */
  readonly onOutdated: (start: number) => void;
  /** Somebody else owns the VNode. */
  readonly onFenced: () => void;
}

export interface RunningOptions {
  readonly world: World;
  readonly timings: Timings;
  readonly tasks: Tasks;
  readonly exchange: Exchange;
  readonly retention: Retention;
  readonly reports: Reports;
  /** Makes the present state durable; undefined if the life ends first. */
  readonly persist: (
    life: Life,
    step: number,
    sender: () => Sender,
    onFenced: () => void,
  ) => Promise<Persisted | undefined>;
  /** Why a checkpoint is not held yet, where something is wrong; else empty. */
  readonly checkpointTrouble: (session: SessionId) => string;
  /** A life begins. */
  readonly onBegin: (life: Life, sender: () => Sender, onFenced: () => void) => void;
  readonly onWork: ((work: PerformedWork) => void) | undefined;
  /** Hears of lines that came with an answer. */
  readonly onLine: (session: SessionId, told: ToldLine) => void;
  /** Stores messages for audits. */
  readonly locker: Locker;
}

export class RunningVNode {
  readonly #options: RunningOptions;
  readonly #life: Life;
  readonly #owner: Owner;
  readonly #impatience: Impatience;
  readonly #pace = new Pace();
  readonly #hearing: Hearing;
  readonly #questions: Questions;
  #window = 0;
  #isSilent: boolean | undefined;
  #events: Event[] = [];
  #handling = false;
  #ended = false;
  #stepMs = 0;
  #computedMs = 0;

  constructor(options: RunningOptions, life: Life, owner: Owner) {
    this.#options = options;
    this.#life = life;
    this.#owner = owner;
    this.#impatience = new Impatience(options.world, options.timings, (attempt) => this.#overdue(attempt));
    this.#questions = new Questions({
      ...options,
      sender: owner.sender,
      isMissing: (name) => !this.#ended && this.admit(name, "") === "wanted",
      onGone: (step) => void this.post({ kind: "gone", step }),
    });
    this.#hearing = new Hearing({
      role: life.role,
      isChecked: life.record !== undefined,
      owners: (vnode) => options.exchange.owners(owner.sender().session, vnode),
      step: () => this.step,
      onAgreed: (arrival) => this.#arrived(arrival),
      onEvidence: (evidence) => this.#tellEvidence(evidence),
    });
  }

  #fenced(): void {
    if (!this.#ended) this.#owner.onFenced();
  }

  start(line: number): void {
    this.#silence();
    this.#options.onBegin(this.#life, this.#owner.sender, () => this.#fenced());
    this.#impatience.start();
    this.post({ kind: "lineAdvanced", line });
    if (this.#options.retention.full) this.post({ kind: "full", full: true });
    this.post({ kind: "start" });
  }

  /** VNodes that share weights here say nothing of what passes between them. Where they stand apart now, they do for this whole life. */
  #silence(): void {
    const { record, role, context } = this.#life;
    const group = context.tied.get(role.vnode);
    if (record === undefined || group === undefined) return;
    this.#isSilent = this.#options.exchange.areTogether(this.#owner.sender(), group);
    if (this.#isSilent) record.transcript.silence([...role.tiesIn, ...role.tiesOut].map(({ id }) => id));
  }

  /** Whether what passes to those that share weights with it is left out of what it states; undefined before it has begun. */
  get isSilent(): boolean | undefined {
    return this.#isSilent;
  }

  async end(): Promise<void> {
    if (this.#ended) return;
    this.#ended = true;
    for (const event of this.#events.splice(0)) discard(event, this.#options.retention);
    this.#impatience.stop();
    this.#life.ending.abort();
    this.#hearing.close();
    for (const payload of this.#life.process.payloads()) this.#options.retention.release(payload);
    await this.#life.compute.close();
  }

  get step(): number {
    return this.#life.process.currentStep;
  }

  /** Of computing in the last step. */
  get stepMs(): number {
    return this.#stepMs;
  }

  phase(): PhaseAndDetail {
    const { exchange, retention } = this.#options;
    const { session } = this.#owner.sender();
    return phaseOf(this.#life.process, {
      waitedMs: this.#impatience.waitedMs,
      retentionFull: retention.full,
      checkpointTrouble: this.#options.checkpointTrouble(session),
      ownerOf: (vnode) => exchange.ownerOf(session, vnode),
    });
  }

  admit(name: MessageName, hash: string): Admission {
    return this.#life.process.admit(name, hash);
  }

  /** What the process says about it; undefined if it says so later. */
  receive(arrival: Arrival): Verdict | undefined {
    const owners = this.#hearing.ownersOf(arrival.name);
    const isCounted = owners > 1 && this.admit(arrival.name, arrival.hash) === "wanted";
    return isCounted ? this.#hearing.hear(arrival, owners) : this.#arrived(arrival);
  }

  /** Before the bytes of a message that is wanted come: what becomes of it without them; undefined if they are needed. */
  hears(arrival: Arrival): Verdict | undefined {
    const owners = this.#hearing.ownersOf(arrival.name);
    return owners > 1 ? this.#hearing.hear(arrival, owners) : undefined;
  }

  #arrived({ name, hash, tensor, from, proof }: Arrival): Verdict | undefined {
    return this.post({ kind: "arrived", name, hash, payload: tensor, from, proof });
  }

  /** How the GPU that computes it rounds; undefined on processors. */
  get rounding(): string | undefined {
    return this.#life.compute.state.rounding;
  }

  get lifeName(): string | undefined {
    return this.#life.record?.name;
  }

  /** For how long messages that audits need have waited to be stored. */
  get storingMs(): number {
    return this.#options.locker.waitedMs(this.#owner.sender());
  }

  /**
   * Events are handled one after another, also those that an effect of one causes at once. Gives the process's verdict
   * about what arrived, if the event was the first in line.
   */
  post(event: Event): Verdict | undefined {
    if (this.#ended) {
      discard(event, this.#options.retention);
      return undefined;
    }
    this.#events.push(event);
    if (this.#handling) return undefined;
    this.#handling = true;
    let verdict: Verdict | undefined;
    try {
      for (let next = this.#events.shift(); next !== undefined; next = this.#events.shift())
        for (const effect of this.#life.process.step(next)) {
          if (effect.kind !== "receipt") this.#perform(effect);
          else {
            if (effect.verdict === "stored") this.#stored(next);
            else discard(next, this.#options.retention);
            if (next === event) verdict = effect.verdict;
          }
        }
    } catch (error) {
      this.#owner.onFailed(messageOf(error));
    } finally {
      this.#handling = false;
    }
    return verdict;
  }

  #stored(event: Event): void {
    this.#impatience.progress();
    if (event.kind !== "arrived") return;
    const { name, hash, from, proof } = event;
    if (name.direction === "backward") this.#pace.returned(name.microbatch, this.#nowMs());
    this.#life.record?.transcript.received(name, hash, fromSource(from).pnode, proof);
  }

  #perform(effect: Exclude<Effect<StoredTensor, Asker>, { kind: "receipt" }>): void {
    if (isNumeric(effect)) {
      this.#compute(effect);
      return;
    }
    switch (effect.kind) {
      case "accumulate":
        this.#life.compute.accumulate(effect.microbatch);
        break;
      case "send":
        this.#life.record?.transcript.sent(effect.message.name, effect.message.payload.knownHash);
        if (effect.message.name.direction === "forward") this.#pace.sent(effect.message.name.microbatch, this.#nowMs());
        this.#options.exchange.send({ ...this.#owner.sender(), life: this.lifeName }, effect.message);
        break;
      case "lock":
        for (const message of effect.messages.filter(({ name }) => !this.#life.record?.transcript.isSilent(name.edge)))
          this.#options.locker.lock(this.#owner.sender(), message.payload, this.#options.retention);
        break;
      case "deliver":
        effect.asker.deliver(effect.message);
        break;
      case "answer":
        effect.asker.answer(effect.outcome);
        break;
      case "ask":
        // Where all of them have to say the same, all are asked.
        for (let owner = 0; owner < Math.max(1, ...effect.names.map((one) => this.#hearing.ownersOf(one))); owner++)
          this.#questions.ask(effect.whom, effect.names, owner);
        break;
      case "persist":
        this.#persist(effect.step);
        break;
      case "publish":
        this.#publish(effect.step, effect.hash, effect.measures);
        break;
      case "publishEvaluation":
        this.#life.record?.transcript.evaluated(effect.step, effect.measures);
        for (const metric of evaluationMetrics(this.#owner.sender(), effect)) this.#options.reports.metric(metric);
        break;
      case "collect":
        for (const payload of effect.released) this.#options.retention.release(payload);
        break;
      case "evidence":
        this.#tellEvidence(effect);
        break;
      case "restart":
        this.#owner.onOutdated(this.#life.start);
        break;
      case "fail":
        this.#owner.onFailed(effect.reason);
        break;
      case "done":
        break;
    }
  }

  #nowMs(): number {
    return this.#options.world.clock.monotonicMs();
  }

  #compute(effect: Numeric): void {
    const startedMs = this.#nowMs();
    if (effect.kind === "backward") this.#pace.complete(effect.microbatch);
    const startWallMs = this.#options.world.clock.wallMs();
    const keeping = {
      keep: (tensor: Parameters<Retention["keep"]>[0]) => {
        const kept = this.#options.retention.keep(tensor);
        // Whatever a statement names has a hash before it can be moved to disk.
        if (this.#life.record !== undefined && !(this.#isSilent && isOfTies(effect))) kept.hashOf(tensor);
        return kept;
      },
      take: (stored: StoredTensor) => stored.take(),
      borrow: (stored: StoredTensor) => stored.borrow(),
    };
    this.#options.tasks.run(`${effect.kind} of VNode ${this.#owner.sender().vnode}`, async () => {
      let event: Event;
      try {
        event = await performNumeric(this.#life.compute, this.#life.role, keeping, effect);
      } catch (error) {
        if (this.#ended) return;
        if (outlookOf(error) === "passing") {
          this.#owner.onBroken(messageOf(error));
          return;
        }
        event = { kind: "failed", reason: messageOf(error) };
      }
      if (this.#ended) return discard(event, this.#options.retention);
      const durationMs = this.#nowMs() - startedMs;
      if (effect.kind === "forward" || effect.kind === "backward") this.#keepPace(effect.kind, durationMs);
      this.#tellWork(effect, event, startWallMs, durationMs);
      this.#computedMs += durationMs;
      this.#impatience.progress();
      this.post(event);
    });
  }

  #keepPace(kind: "forward" | "backward", durationMs: number): void {
    this.#pace.computed(kind, durationMs);
    const { window } = this.#pace;
    if (window === this.#window) return;
    this.#window = window;
    this.post({ kind: "window", microbatches: window });
  }

  #tellWork(effect: Numeric, event: Event, startWallMs: number, durationMs: number): void {
    const { session, vnode } = this.#owner.sender();
    this.#options.onWork?.({
      ...{ kind: effect.kind, session, vnode, step: effect.step, startWallMs, durationMs },
      ...("microbatch" in effect ? { microbatch: effect.microbatch } : {}),
      ...(event.kind === "failed" ? { failure: event.reason } : {}),
    });
  }

  #publish(step: number, hash: string, measures: Readonly<Record<string, number>>): void {
    this.#life.hashes.push({ step, hash });
    this.#life.record?.transcript.published(step, hash, measures);
    this.#stepMs = this.#computedMs;
    this.#computedMs = 0;
    for (const metric of publishedMetrics(this.#owner.sender(), step, measures)) this.#options.reports.metric(metric);
  }

  #tellEvidence(effect: EvidenceFound): void {
    const { edge, step } = effect.name;
    const witness = ({ from, hash }: { from: string; hash: string }) => ({ ...fromSource(from), hash });
    this.#options.world.log("error", `two contents for step ${step} on ${edge}`, { step });
    this.#options.reports.evidence({
      name: toProtoName(this.#owner.sender().session, effect.name),
      first: witness(effect.first),
      second: witness(effect.second),
    });
  }

  #overdue(attempt: number): void {
    const { process } = this.#life;
    if (!process.idle || process.ended !== "no") return;
    if (attempt === 0) {
      this.post({ kind: "overdue" });
      return;
    }
    for (const { whom, names } of process.missing()) this.#questions.ask(whom, names, attempt);
  }

  #persist(step: number): void {
    const { tasks, persist, onLine } = this.#options;
    const { session, vnode } = this.#owner.sender();
    tasks.run(`checkpoint of VNode ${vnode} at step ${step}`, async () => {
      const recorded = await persist(this.#life, step, this.#owner.sender, () => this.#fenced());
      if (recorded === undefined || this.#ended) return;
      if (recorded.kind === "fenced") this.#owner.onFenced();
      else if (recorded.kind === "failed") this.#owner.onFailed(recorded.reason, recorded.noRoom);
      else {
        this.post({ kind: "persisted", step });
        onLine(session, recorded.told);
      }
    });
  }
}
