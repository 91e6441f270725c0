// One attached PNode: what its heartbeats said last, and what it is still to be told. What it is told is
// composed at the moment of sending, so a slow receiver gets the newest lists and never a queue of old ones.

import type { MessageInitShape } from "@bufbuild/protobuf";
import type { PNodeId } from "../../../core/ids.ts";
import { wholeOf } from "../../../core/whole.ts";
import type {
  AssignmentSchema,
  AttachResponseSchema,
  GpuReading,
  Heartbeat,
  Relaying,
  RelayPlaceSchema,
} from "../../../protocol/gen/dcnr/v1/pnode_pb.ts";
import type { Routes } from "../../../protocol/routes/routes.ts";
import { type GuessesTold, guessesOf } from "./guesses-told.ts";
import type { Standing } from "./standing.ts";

export type Down = MessageInitShape<typeof AttachResponseSchema>;

/** More neighbours than any VNode has. */
const waitsForMax = 256;

export interface Progress {
  readonly session: string;
  readonly vnode: string;
  readonly epoch: number;
  readonly step: number;
  readonly phase: string;
  readonly detail: string;
  readonly stepMs: number;
  readonly sinceMs: number;
  /** VNodes whose messages it needs to go on, and for how long it has waited for them. */
  readonly waitsFor: readonly string[];
  readonly waitedMs: number;
  /** What weights of few bits lost of their size, on the average; it is for people. */
  readonly weightError?: number;
  /** Of a served model's head: what came of tokens that were guessed, by kind; it is for people. */
  readonly guesses?: readonly GuessesTold[];
}

export interface MeasuredLink {
  readonly latencyMs: number;
  readonly bytesPerSecond: number;
}

export interface Composer {
  assignments(pnode: PNodeId, revision: number): Down;
  /** Undefined if there is nothing to say about the session to this PNode. */
  session(pnode: PNodeId, session: string): Down | undefined;
}

export type RelayList = readonly MessageInitShape<typeof RelayPlaceSchema>[];

interface Sender {
  send(message: Down): Promise<void>;
  close(): void;
}

/** What one heartbeat may carry; a PNode hosts hundreds of VNodes at most. */
const progressMax = 20_000;
const linksMax = 4_096;
const gpusReadMax = 64;
const phaseMax = 40;
const vnodeNameMax = 200;

export class Attachment {
  readonly pnode: PNodeId;
  /** The registry alone changes it. */
  standing: Standing;
  load = 0;
  memoryUsedBytes = 0;
  temperatureCelsius = 0;
  gpus: readonly GpuReading[] = [];
  latencyMs = 0;
  progress: ReadonlyMap<string, Progress> = new Map();
  links: ReadonlyMap<string, MeasuredLink> = new Map();
  /** By session: what its keepers fetched of it so far, and for how many checkpoints. */
  kept: ReadonlyMap<string, { readonly bytes: number; readonly states: number }> = new Map();
  readonly #sender: Sender;
  readonly #composer: Composer;
  #registered: Down | undefined;
  #ack: bigint | undefined;
  #assignments = true;
  readonly #sessions = new Set<string>();
  #prepare: MessageInitShape<typeof AssignmentSchema>[] = [];
  #standBy: Down | undefined;
  #leaveGranted = false;
  readonly #circles = new Map<string, Down>();
  #reached: Down | undefined;
  #relays: RelayList | undefined;
  /** Where it said last that it is, since it has attached; undefined if it has not moved. */
  movedTo: Routes | undefined;
  /** What it relays for others; undefined if it does not. */
  relaying: Relaying | undefined;
  #revision = 0;
  #pumping = false;
  #closed = false;
  #ended = false;

  constructor(pnode: PNodeId, standing: Standing, sender: Sender, composer: Composer) {
    this.pnode = pnode;
    this.standing = standing;
    this.#sender = sender;
    this.#composer = composer;
  }

  /** Names this attachment in the PNode's record. */
  get nonce(): string {
    return this.standing.nonce;
  }

  get incarnation(): string {
    return this.standing.incarnation;
  }

  get status(): "online" | "suspect" | "leaving" | "closed" {
    if (this.#closed) return "closed";
    const { kind } = this.standing.phase;
    if (kind === "online") return "online";
    return kind === "leaving" || kind === "left" ? "leaving" : "suspect";
  }

  heard(heartbeat: Heartbeat): void {
    this.load = heartbeat.load;
    this.memoryUsedBytes = wholeOf(heartbeat.memoryUsedBytes);
    this.temperatureCelsius = heartbeat.temperatureCelsius;
    this.gpus = heartbeat.gpus.slice(0, gpusReadMax);
    this.latencyMs = heartbeat.latencyMs;
    this.relaying = heartbeat.relaying;
    if (heartbeat.vnodes.length > 0 || this.progress.size > 0) this.#hearProgress(heartbeat, this.standing.lastSeenMs);
    if (heartbeat.links.length > 0) {
      const links = new Map(this.links);
      for (const { pnode, latencyMs, bytesPerSecond } of heartbeat.links.slice(0, linksMax))
        if (latencyMs > 0 || bytesPerSecond > 0) links.set(pnode, { latencyMs, bytesPerSecond });
      this.links = links.size > linksMax ? new Map(Array.from(links).slice(-linksMax)) : links;
    }
    if (heartbeat.crews.length > 0 || this.kept.size > 0)
      this.kept = new Map(
        heartbeat.crews
          .slice(0, progressMax)
          .map(({ session, keptBytes, keptStates }) => [
            session,
            { bytes: Number(keptBytes), states: Number(keptStates) },
          ]),
      );
    this.#ack = heartbeat.sequence;
    this.#pump();
  }

  #hearProgress(heartbeat: Heartbeat, nowMs: number): void {
    const progress = new Map<string, Progress>();
    for (const one of heartbeat.vnodes.slice(0, progressMax)) {
      const name = `${one.session}/${one.vnode}`;
      const before = this.progress.get(name);
      // Not its detail, which counts the seconds.
      const same = before?.phase === one.phase.slice(0, phaseMax) && before.step === wholeOf(one.step);
      progress.set(name, {
        session: one.session,
        vnode: one.vnode,
        epoch: wholeOf(one.epoch),
        step: wholeOf(one.step),
        phase: one.phase.slice(0, phaseMax),
        detail: one.detail.slice(0, 500),
        stepMs: one.stepMs,
        sinceMs: same ? before.sinceMs : nowMs,
        waitsFor: one.waitsFor.slice(0, waitsForMax).map((vnode) => vnode.slice(0, vnodeNameMax)),
        waitedMs: one.waitedMs,
        ...weightErrorOf(one),
        ...guessesOf(one),
      });
    }
    this.progress = progress;
  }

  tellRegistered(message: Down): void {
    this.#registered = message;
    this.#pump();
  }

  tellAssignments(): void {
    this.#assignments = true;
    this.#pump();
  }

  tellSession(session: string): void {
    this.#sessions.add(session);
    this.#pump();
  }

  tellPrepare(assignments: MessageInitShape<typeof AssignmentSchema>[]): void {
    this.#prepare.push(...assignments);
    this.#pump();
  }

  /** All sessions that it may have to take something of. */
  tellStandBy(sessions: readonly { readonly session: string; readonly vnodes: string[] }[]): void {
    this.#standBy = { event: { case: "standBy", value: { sessions: [...sessions] } } };
    this.#pump();
  }

  /** VNodes of a session that wait for each other, one of them there. */
  tellCircle(session: string, vnodes: readonly string[]): void {
    this.#circles.set(session, { event: { case: "circle", value: { session, vnodes: [...vnodes] } } });
    this.#pump();
  }

  tellReached(how: string, problem: string): void {
    this.#reached = { event: { case: "reached", value: { how, problem } } };
    this.#pump();
  }

  tellRelays(relays: RelayList): void {
    this.#relays = relays;
    this.#pump();
  }

  tellLeaveGranted(): void {
    this.#leaveGranted = true;
    this.#pump();
  }

  /** Ends the stream; nothing is sent any more. */
  close(): void {
    this.#ended = true;
    this.#closed = true;
    this.#sender.close();
  }

  #next(): Down | undefined {
    if (this.#registered) {
      const message = this.#registered;
      this.#registered = undefined;
      return message;
    }
    if (this.#assignments) {
      this.#assignments = false;
      return this.#composer.assignments(this.pnode, ++this.#revision);
    }
    for (const session of this.#sessions) {
      this.#sessions.delete(session);
      const message = this.#composer.session(this.pnode, session);
      if (message) return message;
    }
    if (this.#prepare.length > 0) {
      const assignments = this.#prepare;
      this.#prepare = [];
      return { event: { case: "prepare", value: { assignments } } };
    }
    if (this.#standBy) {
      const message = this.#standBy;
      this.#standBy = undefined;
      return message;
    }
    for (const [session, message] of this.#circles) {
      this.#circles.delete(session);
      return message;
    }
    if (this.#relays) {
      const relays = [...this.#relays];
      this.#relays = undefined;
      return { event: { case: "relays", value: { relays } } };
    }
    if (this.#reached) {
      const message = this.#reached;
      this.#reached = undefined;
      return message;
    }
    if (this.#leaveGranted) {
      this.#leaveGranted = false;
      return { event: { case: "leaveGranted", value: {} } };
    }
    if (this.#ack !== undefined) {
      const sequence = this.#ack;
      this.#ack = undefined;
      return { event: { case: "heartbeatAck", value: { sequence } } };
    }
    return undefined;
  }

  #pump(): void {
    if (this.#pumping || this.#ended) return;
    this.#pumping = true;
    void this.#send();
  }

  async #send(): Promise<void> {
    try {
      for (let message = this.#next(); message && !this.#ended; message = this.#next())
        await this.#sender.send(message);
    } catch {
      // A broken stream ends `incoming` as well; whoever reads that deals with it.
      this.#ended = true;
    } finally {
      this.#pumping = false;
    }
  }
}

/** Rounding loses no more than all: anything else was not measured. */
export function weightErrorOf({ weightError }: { readonly weightError?: number | undefined }): {
  readonly weightError?: number;
} {
  return weightError !== undefined && weightError >= 0 && weightError <= 1 ? { weightError } : {};
}
