// One hosted VNode as its PNode is told about it. host.ts decides; here its decisions are carried out, and what becomes of
// them is told to it.

import { messageOf, outlookOf } from "../../core/errors.ts";
import { retry } from "../../core/retry.ts";
import type { Tasks } from "../../core/tasks.ts";
import { sleep, type World } from "../../core/world.ts";
import { messageShape } from "../../network/plan.ts";
import type { ToldRound } from "../../network/rounds.ts";
import type { Verdict } from "../../vnode/effects.ts";
import type { Admission } from "../../vnode/inbox.ts";
import type { MessageName } from "../../vnode/names.ts";
import { edgeToward } from "../../vnode/role.ts";
import type { MessageMemory } from "../../vnode/wire.ts";
import type { Assignment } from "../assignment.ts";
import type { Timings } from "../options.ts";
import { NoRoom } from "../room.ts";
import type { ToldLine } from "../told-line.ts";
import { firstAssigned, type HostEffect, type HostEvent, type HostState, step, type Trouble } from "./host.ts";
import { type Life, LostState } from "./life.ts";
import type { PhaseAndDetail } from "./phase.ts";
import type { Arrival, Asker, Receiver } from "./receiver.ts";
import type { Owner, RunningVNode } from "./running-vnode.ts";

export interface VNodeHostOptions {
  readonly world: World;
  readonly timings: Pick<Timings, "retryMinMs" | "retryMaxMs" | "askMaxMs">;
  readonly tasks: Tasks;
  /** Loads what an assignment says; undefined if the signal aborts on the way. */
  readonly open: (assignment: Assignment, signal: AbortSignal) => Promise<Life | undefined>;
  readonly run: (life: Life, owner: Owner) => RunningVNode;
  /** Orchestrators should hear soon what it says. */
  readonly onUrgent: () => void;
  /** Somebody else owns the VNode. */
  readonly onFenced: (assignment: Assignment) => void;
}

export class VNodeHost implements Receiver {
  readonly #options: VNodeHostOptions;
  readonly #events: HostEvent<Life>[] = [];
  #state: HostState;
  /** What was told of rounds, from the line on. */
  readonly #rounds = new Map<number, ToldRound>();
  #performing = false;
  #running: { readonly vnode: RunningVNode; readonly life: Life } | undefined;
  /** Ends what is being opened, or the pause before it. */
  #underWay = new AbortController();

  constructor(options: VNodeHostOptions, assignment: Assignment) {
    this.#options = options;
    const { state, effects } = firstAssigned<Life>(assignment);
    this.#state = state;
    for (const effect of effects) this.#perform(effect);
  }

  get assignment(): Assignment {
    return this.#state.assignment;
  }

  get epoch(): number {
    return this.#state.assignment.epoch;
  }

  get failed(): boolean {
    return this.#phase().phase === "failed";
  }

  reassign(told: Assignment): void {
    this.#tellRounds(told);
    this.#tellDrawn(told);
    this.#post({ kind: "assigned", told });
  }

  lineAdvanced({ line, turn, drawn, rounds }: ToldLine): void {
    this.#tellRounds({ rounds });
    this.#tellDrawn({ turn, drawn });
    this.#post({ kind: "line", line, turn });
  }

  /** Of the crew, which goes on without orchestrators. */
  crewLine(line: number, turn: number, state: string, staysBelow: boolean): void {
    const step = staysBelow ? line : (this.#running?.vnode.step ?? this.assignment.line);
    this.#post({ kind: "crewLine", line, turn, state, step });
  }

  /** Before the line, which lets messages go. */
  #tellDrawn({ turn, drawn }: Pick<ToldLine, "turn" | "drawn">): void {
    if (turn === this.#running?.life.turn) this.#running.vnode.post({ kind: "drawn", drawn });
  }

  /** Before the line as well: whoever has no part in a round learns so before it hears how far the others are. */
  #tellRounds({ rounds }: Pick<ToldLine, "rounds">): void {
    if (rounds.length === 0) return;
    // A life that is being opened hears of them when it begins.
    for (const told of rounds)
      if (told.counted !== undefined || !this.#rounds.has(told.round)) this.#rounds.set(told.round, told);
    const least = Math.min(...rounds.map(({ round }) => round));
    for (const round of this.#rounds.keys()) if (round < least) this.#rounds.delete(round);
    this.#running?.vnode.post({ kind: "rounds", rounds });
  }

  get life(): string | undefined {
    return this.#running?.vnode.lifeName;
  }

  get isSilent(): boolean | undefined {
    return this.#running?.vnode.isSilent;
  }

  get needsProof(): boolean {
    return this.#running?.life.record !== undefined;
  }

  setPaused(paused: boolean): void {
    this.#running?.vnode.post({ kind: "pause", paused });
  }

  setFull(full: boolean): void {
    this.#running?.vnode.post({ kind: "full", full });
  }

  async stop(): Promise<void> {
    const { vnode } = this.#running ?? {};
    this.#post({ kind: "stop" });
    await vnode?.end();
  }

  // Deciding and performing

  #post(event: HostEvent<Life>): void {
    this.#events.push(event);
    if (this.#performing) return;
    this.#performing = true;
    try {
      for (let next = this.#events.shift(); next !== undefined; next = this.#events.shift()) {
        const { state, effects } = step(this.#state, next);
        this.#state = state;
        for (const effect of effects) this.#perform(effect);
      }
    } finally {
      this.#performing = false;
    }
  }

  #perform(effect: HostEffect<Life>): void {
    const { tasks, world, onUrgent, onFenced } = this.#options;
    switch (effect.kind) {
      case "open":
        this.#open(effect.life);
        break;
      case "cancel":
        this.#underWay.abort();
        break;
      case "pause":
        this.#pause(effect.life);
        break;
      case "begin":
        this.#begin(effect.life, effect.opened, effect.line);
        break;
      case "discard":
        tasks.run("close a life that nobody waits for", () => effect.opened.compute.close());
        break;
      case "end": {
        const running = this.#running;
        this.#running = undefined;
        tasks.run("end a VNode's life", async () => running?.vnode.end());
        break;
      }
      case "tellLine":
        this.#running?.vnode.post({ kind: "lineAdvanced", line: effect.line });
        break;
      case "report":
        world.log("error", effect.reason, { step: this.#running?.vnode.step ?? this.assignment.line });
        onUrgent();
        break;
      case "leave":
        world.log("info", "another owner has taken over: stopping");
        onFenced(this.assignment);
        break;
    }
  }

  #open(life: number): void {
    const { tasks, open, world, timings } = this.#options;
    const underWay = new AbortController();
    this.#underWay = underWay;
    const { signal } = underWay;
    // What another place might do is for another place: here it is tried once.
    const patience = { world, minMs: timings.retryMinMs, maxMs: timings.retryMaxMs, rounds: 1, signal };
    tasks.run(`load VNode ${this.assignment.vnode}`, async () => {
      try {
        const opened = await retry(
          patience,
          () => open(this.assignment, signal),
          (error) => this.#post({ kind: "stumbled", life, trouble: troubleOf(error) }),
        );
        if (opened !== undefined) this.#post({ kind: "opened", life, opened });
      } catch (error) {
        if (!signal.aborted) this.#post({ kind: "notOpened", life, trouble: troubleOf(error) });
      }
    });
  }

  #pause(life: number): void {
    const { tasks, world, timings } = this.#options;
    this.#underWay = new AbortController();
    const { signal } = this.#underWay;
    tasks.run(`wait before VNode ${this.assignment.vnode} is loaded`, async () => {
      await sleep(world.timers, timings.askMaxMs, signal);
      if (!signal.aborted) this.#post({ kind: "paused", life });
    });
  }

  #begin(number: number, life: Life, line: number): void {
    const vnode = this.#options.run(life, {
      sender: () => this.assignment,
      onFailed: (reason, noRoom = false) => this.#post({ kind: "lifeFailed", life: number, reason, noRoom }),
      onBroken: (reason) => this.#post({ kind: "lifeBroken", life: number, reason }),
      onOutdated: (start) => this.#post({ kind: "lifeOutdated", life: number, start }),
      onFenced: () => this.#post({ kind: "fenced", life: number }),
    });
    this.#running = { vnode, life };
    this.#tellRounds(this.assignment);
    vnode.post({ kind: "rounds", rounds: [...this.#rounds.values()] });
    this.#tellDrawn(this.assignment);
    vnode.start(line);
  }

  // Receiving

  get isRunning(): boolean {
    return this.#running !== undefined;
  }

  get memory(): MessageMemory | undefined {
    return this.#running?.life.compute.memory;
  }

  expects(name: MessageName) {
    if (this.#running === undefined) return undefined;
    const { role, context, process } = this.#running.life;
    const edge = edgeToward(role, name.edge, name.direction);
    if (edge === undefined) return undefined;
    return {
      wire: edge.wire,
      shape: edge.kind === "outer" ? process.outerShape(edge, name.step) : messageShape(edge, context.samples),
      from: name.direction === "forward" ? edge.from : edge.to,
    };
  }

  admit(name: MessageName, hash: string): Admission {
    return this.#running?.vnode.admit(name, hash) ?? "beyond";
  }

  receive(arrival: Arrival): Verdict | undefined {
    if (this.#running !== undefined) return this.#running.vnode.receive(arrival);
    arrival.tensor?.release();
    return undefined;
  }

  hears(arrival: Arrival): Verdict | undefined {
    return this.#running?.vnode.hears(arrival);
  }

  asked(names: readonly MessageName[], asker: Asker): void {
    // While it loads, it cannot know; it will send everything from the line on by itself.
    if (this.#running === undefined) asker.answer("coming");
    else this.#running.vnode.post({ kind: "asked", names, asker });
  }

  // Telling

  progress() {
    const { session, vnode, epoch, line } = this.assignment;
    const { phase, detail, waitsFor = [], waitedMs = 0 } = this.#phase();
    const running = this.#running?.vnode;
    const { now } = this.#state;
    const damagedState = (now.kind === "loading" && now.trouble?.damagedState) || "";
    const step = BigInt(running?.step ?? line);
    return {
      ...{ session, vnode, epoch: BigInt(epoch), step, phase, detail, stepMs: running?.stepMs ?? 0, damagedState },
      ...{ waitsFor: [...waitsFor], waitedMs, noRoom: now.kind === "failed" && now.noRoom },
      ...{ life: running?.lifeName ?? "", storingMs: running?.storingMs ?? 0, rounding: running?.rounding ?? "" },
    };
  }

  #phase(): PhaseAndDetail {
    const { now } = this.#state;
    switch (now.kind) {
      case "running":
        return this.#running?.vnode.phase() ?? { phase: "loading", detail: "" };
      case "loading":
        return {
          phase: now.trouble?.permanent ? "failed" : "loading",
          detail: now.trouble?.reason ?? "loading its state",
        };
      case "waiting":
        return { phase: "loading", detail: now.reason };
      case "failed":
        return { phase: "failed", detail: now.reason };
      case "stopped":
        return { phase: "loading", detail: "stopping" };
    }
  }
}

function troubleOf(error: unknown): Trouble {
  const damagedState = error instanceof LostState ? error.state : "";
  const permanent = outlookOf(error) !== "passing";
  return { reason: messageOf(error), permanent, damagedState, noRoom: error instanceof NoRoom };
}
