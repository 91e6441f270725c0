// One hosted VNode as its PNode is told about it: starts a life at the recovery line it is assigned, starts again when
// the line or the turn demands it, stops when told so, and says what it does.

import { messageOf, outlookOf } from "../../core/errors.ts";
import { Backoff } from "../../core/retry.ts";
import { sleep, type World, withFields } from "../../core/world.ts";
import type { Verdict } from "../../vnode/effects.ts";
import type { Admission } from "../../vnode/inbox.ts";
import type { MessageName } from "../../vnode/names.ts";
import { edgeToward, type Role } from "../../vnode/role.ts";
import type { Assignment } from "../assignment.ts";
import type { SessionContext } from "../session-context.ts";
import type { HostShared } from "./host-shared.ts";
import { type Life, LostState, openLife } from "./life.ts";
import type { PhaseAndDetail } from "./phase.ts";
import type { Arrival, Asker, Memory, Receiver } from "./receiver.ts";
import { type Owner, RunningVNode } from "./running-vnode.ts";

export class VNodeHost implements Receiver {
  readonly #shared: HostShared;
  readonly #ending = new AbortController();
  readonly #world: World;
  #assignment: Assignment;
  #running: RunningVNode | undefined;
  #loading: AbortController | undefined;
  #role: Role | undefined;
  #context: SessionContext | undefined;
  /** Why it does not run, for people; empty while it does. */
  #trouble = "";
  #failed = false;
  /** A checkpoint that is missing or damaged: orchestrators then fall back to the line before. */
  #damagedState = "";
  #line = 0;

  constructor(shared: HostShared, assignment: Assignment) {
    this.#shared = shared;
    this.#assignment = assignment;
    const { session, vnode } = assignment;
    this.#world = { ...shared.world, log: withFields(shared.world.log, { session, vnode }) };
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
    const idle = this.#running === undefined && this.#loading === undefined;
    // A new turn: states of the line are lost, and everybody goes back to the one before.
    if (assignment.since > before.epoch || assignment.turn > before.turn) this.#restart();
    else if (idle && (changed || assignment.epoch > before.epoch)) this.#restart();
    else this.lineAdvanced(assignment.line, assignment.turn);
  }

  /** Lines of another turn say nothing: an earlier one is void, of a later one the next assignment will tell. */
  lineAdvanced(line: number, turn: number): void {
    if (turn !== this.#assignment.turn) return;
    this.#line = Math.max(this.#line, line);
    this.#running?.post({ kind: "lineAdvanced", line });
  }

  setPaused(paused: boolean): void {
    this.#running?.post({ kind: "pause", paused });
  }

  setFull(full: boolean): void {
    this.#running?.post({ kind: "full", full });
  }

  async stop(): Promise<void> {
    this.#ending.abort();
    this.#loading?.abort();
    await this.#endLife();
  }

  // Starting

  #restart(): void {
    this.#failed = false;
    this.#damagedState = "";
    this.#line = this.#assignment.line;
    this.#endLifeSoon();
    this.#load();
  }

  #load(): void {
    this.#loading?.abort();
    const loading = new AbortController();
    this.#loading = loading;
    this.#trouble = "loading its state";
    const { signal } = loading;
    this.#shared.tasks.run(`load VNode ${this.#assignment.vnode}`, async () => {
      const backoff = new Backoff(this.#shared.timings.retryMinMs, this.#shared.timings.retryMaxMs, this.#world.chance);
      while (!signal.aborted) {
        try {
          const life = await this.#openLife(signal);
          if (life !== undefined) this.#begin(life);
          break;
        } catch (error) {
          if (signal.aborted || this.#cannotLoad(error)) break;
          await sleep(this.#world.timers, backoff.next(), signal);
        }
      }
      if (this.#loading === loading) this.#loading = undefined;
    });
  }

  async #openLife(signal: AbortSignal): Promise<Life | undefined> {
    const assignment = this.#assignment;
    const prepared = await this.#shared.takePrepared(assignment);
    if (prepared !== undefined && !signal.aborted) return prepared;
    await prepared?.compute.close();
    const name = `${assignment.session}/${assignment.vnode}/${this.#shared.lifeNumber()}`;
    return signal.aborted ? undefined : openLife(this.#shared, assignment, name, signal);
  }

  /** Whether trying again is of no use. */
  #cannotLoad(error: unknown): boolean {
    this.#trouble = messageOf(error);
    this.#failed = outlookOf(error) !== "passing";
    this.#damagedState = error instanceof LostState ? error.state : "";
    if (!this.#failed) return false;
    this.#world.log("error", `cannot start: ${this.#trouble}`, { step: this.#assignment.line });
    this.#shared.reports.onUrgent();
    // A lost blob may be found again, or the line moves; anything else stays as it is.
    return this.#damagedState === "";
  }

  #begin(life: Life): void {
    this.#loading = undefined;
    this.#role = life.role;
    this.#context = life.context;
    this.#trouble = "";
    this.#failed = false;
    this.#damagedState = "";
    this.#running = new RunningVNode(this.#shared, this.#world, life, this.#owner);
    this.#running.start(this.#line);
  }

  async #endLife(): Promise<void> {
    const running = this.#running;
    this.#running = undefined;
    await running?.end();
  }

  #endLifeSoon(): void {
    this.#shared.tasks.run("end a VNode's life", () => this.#endLife());
  }

  /** Unless a newer assignment comes first. */
  #loadLater(trouble: string): void {
    this.#trouble = trouble;
    this.#shared.tasks.run(`load VNode ${this.#assignment.vnode} later`, async () => {
      await sleep(this.#world.timers, this.#shared.timings.askMaxMs, this.#ending.signal);
      if (this.#ending.signal.aborted || this.#failed) return;
      if (this.#running === undefined && this.#loading === undefined) this.#load();
    });
  }

  // Receiving

  expects(name: MessageName) {
    const [role, context] = [this.#role, this.#context];
    const edge = role && edgeToward(role, name.edge, name.direction);
    if (edge === undefined || context === undefined) return undefined;
    const shape = edge.kind === "tie" ? edge.shape : [context.samples, ...edge.shape];
    return { wire: edge.wire, shape, from: name.direction === "forward" ? edge.from : edge.to };
  }

  get epoch(): number {
    return this.#assignment.epoch;
  }

  get isRunning(): boolean {
    return this.#running !== undefined;
  }

  readonly memory: Memory = { allocate: (bytes) => new Uint8Array(bytes), discard: () => {} };

  admit(name: MessageName, hash: string): Admission {
    return this.#running?.admit(name, hash) ?? "beyond";
  }

  receive(arrival: Arrival): Verdict | undefined {
    return this.#running?.receive(arrival);
  }

  asked(names: readonly MessageName[], asker: Asker): void {
    // While it loads, it cannot know; it will send everything from the line on by itself.
    if (this.#running === undefined) asker.answer("coming");
    else this.#running.post({ kind: "asked", names, asker });
  }

  // What a life tells

  readonly #owner: Owner = {
    sender: () => this.#assignment,
    onFailed: (reason) => {
      this.#failed = true;
      this.#trouble = reason;
      this.#world.log("error", reason, { step: this.#running?.step });
      this.#endLifeSoon();
      this.#shared.reports.onUrgent();
    },
    onBroken: (reason) => {
      this.#endLifeSoon();
      this.#loadLater(reason);
    },
    onOutdated: (start) => {
      this.#endLifeSoon();
      if (this.#assignment.line > start) this.#load();
      else this.#loadLater(`for a recovery line above ${start}`);
    },
    onFenced: () => {
      this.#world.log("info", "another owner has taken over: stopping");
      this.#shared.onFenced(this.#assignment);
    },
  };

  // Telling

  progress() {
    const { session, vnode, epoch } = this.#assignment;
    const { phase, detail } = this.#phase();
    const step = BigInt(this.#running?.step ?? this.#assignment.line);
    const stepMs = this.#running?.stepMs ?? 0;
    const damagedState = phase === "failed" ? this.#damagedState : "";
    return { session, vnode, epoch: BigInt(epoch), step, phase, detail, stepMs, damagedState };
  }

  #phase(): PhaseAndDetail {
    if (this.#failed) return { phase: "failed", detail: this.#trouble };
    return this.#running?.phase() ?? { phase: "loading", detail: this.#trouble };
  }
}

/** An orchestrator whose view is behind may tell an older line under a newer epoch. */
function withNewerLine(told: Assignment, before: Assignment): Assignment {
  const isOlder = told.turn < before.turn || (told.turn === before.turn && told.line < before.line);
  if (!isOlder) return told;
  const { turn, line, state } = before;
  return { ...told, turn, line, state };
}
