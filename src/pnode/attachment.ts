// The one stream to an orchestrator: registration and heartbeats go up, assignments come down. When it breaks, the
// next orchestrator is tried at once; when none answers, it is tried for ever, ever more rarely.

import type { MessageInitShape } from "@bufbuild/protobuf";
import { DcnrError, fail } from "../core/errors.ts";
import { Patience } from "../core/patience.ts";
import { Backoff } from "../core/retry.ts";
import { type Cancel, sleep, type World } from "../core/world.ts";
import {
  type Assignments,
  type AttachRequestSchema,
  type AttachResponse,
  type Circle,
  type Heartbeat,
  type HeartbeatSchema,
  type MeasurementSchema,
  PNodeService,
  type Prepare,
  type Reached,
  type Registered,
  type RegisterSchema,
  type Relays,
  type SessionUpdate,
  type StandBy,
} from "../protocol/gen/dcnr/v1/pnode_pb.ts";
import type { Channel, Network } from "../protocol/network.ts";
import { withoutKey } from "../protocol/routes/address.ts";
import { isRefused } from "../protocol/streams/wire-errors.ts";
import type { Pulse, Timings } from "./options.ts";
import type { Orchestrators } from "./orchestrators.ts";
import type { Reports } from "./reports.ts";

type Request = MessageInitShape<typeof AttachRequestSchema>;
type Stream = Channel<Request, AttachResponse>;
/** Of what was registered. */
type Change = Extract<Request["event"], { readonly case: "measurement" | "moved" }>;

export interface AttachmentOptions {
  readonly network: Network;
  readonly world: World;
  readonly timings: Timings;
  readonly orchestrators: Orchestrators;
  readonly reports: Reports;
  readonly signal: AbortSignal;
  readonly pulse?: Pulse | undefined;
  /** Finds out where peers reach this PNode, which may have changed since the last stream. */
  readonly locate?: ((orchestrator: string) => Promise<void>) | undefined;
  /** As of now, for each new stream. */
  readonly register: () => MessageInitShape<typeof RegisterSchema>;
  /** All but what this class knows by itself. */
  readonly heartbeat: () => Omit<
    Exclude<MessageInitShape<typeof HeartbeatSchema>, Heartbeat>,
    "sequence" | "metrics" | "latencyMs"
  >;
  readonly onRegistered: (registered: Registered) => void;
  readonly onAssignments: (assignments: Assignments) => void;
  readonly onPrepare: (prepare: Prepare) => void;
  readonly onStandBy: (standBy: StandBy) => void;
  readonly onSession: (update: SessionUpdate) => void;
  readonly onCircle: (circle: Circle) => void;
  readonly onLeaveGranted: () => void;
  readonly onReached: (reached: Reached) => void;
  readonly onRelays: (relays: Relays) => void;
}

/** One who was refused does not knock every second. */
const refusedMaxMs = 10_000;

const roundTripsKept = 5;

/** A busy orchestrator that was not waited for would never be reached at all. */
const registerTimeoutMsMax = 15_000;

/** How long the last state's record waits for its metrics to arrive. */
const flushTimeoutMs = 1_000;

export class Attachment {
  readonly #options: AttachmentOptions;
  #stream: Stream | undefined;
  #registered = false;
  #sequence = 0n;
  #heardMs = 0;
  /** How late answers to heartbeats were, and how long registrations take. */
  #patience: Patience;
  #registerMs: number;
  #intervalMs: number;
  #cancelBeat: Cancel = () => {};
  #beating = false;
  #beatAgain = false;
  #leaving: string | undefined;
  /** What has changed since the last registration left, in its order: of several measurements each says something else. */
  #untold: Change[] = [];
  /** When heartbeats left that are still unanswered, and how long the last answers took. */
  readonly #sentMs = new Map<bigint, number>();
  #roundTripsMs: number[] = [];
  #waiting: { sequence: bigint; done: () => void }[] = [];
  /** Orchestrators where nobody listened at the last attempt: their processes are gone. */
  readonly #refusing = new Set<string>();
  /** Why the last attempt failed; undefined while attached. */
  failure: DcnrError | undefined;
  #told = "";
  #onAttached: () => void = () => {};
  /** Resolves with the first registration. */
  readonly first = new Promise<void>((resolve) => {
    this.#onAttached = resolve;
  });

  constructor(options: AttachmentOptions) {
    this.#options = options;
    this.#intervalMs = options.timings.heartbeatIntervalMs;
    this.#patience = new Patience(options.timings.silentMs);
    this.#registerMs = options.timings.registerTimeoutMs;
  }

  /** The shortest of the last few round trips: what the wire takes, not what a busy moment does. 0 until measured. */
  get latencyMs(): number {
    return this.#roundTripsMs.length === 0 ? 0 : Math.min(...this.#roundTripsMs);
  }

  get attached(): boolean {
    return this.#registered;
  }

  /** When the orchestrator last said something; undefined while attached to none. */
  get heardMs(): number | undefined {
    return this.#registered ? this.#heardMs : undefined;
  }

  /** At none of the known addresses anybody listens: not silent, but gone. */
  get nobodyListens(): boolean {
    return !this.#registered && this.#options.orchestrators.addresses.every((address) => this.#refusing.has(address));
  }

  async run(): Promise<void> {
    const { orchestrators, world, timings, signal } = this.#options;
    const backoff = new Backoff(timings.retryMinMs, timings.retryMaxMs, world.chance);
    const refusals = new Backoff(10 * timings.retryMinMs, refusedMaxMs, world.chance);
    let failures = 0;
    while (!signal.aborted) {
      const address = orchestrators.current;
      const registered = await this.#attachOnce(address);
      if (signal.aborted) break;
      orchestrators.failed(address);
      if (registered) {
        failures = 0;
        backoff.reset();
        refusals.reset();
      }
      // Each known orchestrator is tried at once; only then is it time to wait.
      if (++failures % orchestrators.count !== 0) continue;
      this.#tellAlone();
      await sleep(world.timers, this.refused ? refusals.next() : backoff.next(), signal);
    }
  }

  /** True if the orchestrator had registered this PNode. */
  async #attachOnce(address: string): Promise<boolean> {
    const { network, world, timings, signal, reports } = this.#options;
    if (!(await this.#located(address))) return false;
    const stream: Stream = network.open(address, PNodeService.method.attach, { signal });
    this.#stream = stream;
    this.#heardMs = world.clock.monotonicMs();
    reports.restart();
    this.#sentMs.clear();
    this.#roundTripsMs = [];
    const openedMs = this.#heardMs;
    let registered = false;
    const cancelWatch = this.#watch(() => stream.close());
    try {
      this.#untold = [];
      await stream.send({ event: { case: "register", value: this.#options.register() } });
      for await (const response of stream.incoming) {
        this.#heardMs = world.clock.monotonicMs();
        if (response.event.case === "registered") {
          registered = true;
          this.#registerMs = clampRegister(2 * (this.#heardMs - openedMs), timings);
        }
        this.#handle(response, address);
      }
      if (!registered) {
        this.#registerMs = clampRegister(2 * this.#registerMs, timings);
        fail("unavailable", `the orchestrator at ${withoutKey(address)} does not answer in time`);
      }
    } catch (error) {
      this.#noteFailure(error, address);
    } finally {
      cancelWatch();
      this.#cancelBeat();
      this.#registered = false;
      this.#stream = undefined;
      stream.close();
    }
    return registered;
  }

  /** False if that failed: a wrong address would be registered for as long as the stream lasts. */
  async #located(address: string): Promise<boolean> {
    try {
      await this.#options.locate?.(address);
      return true;
    } catch (error) {
      this.#noteFailure(error, address);
      return false;
    }
  }

  #noteFailure(error: unknown, address: string): void {
    const { signal, world } = this.#options;
    if (signal.aborted) return;
    this.failure = DcnrError.from(error, "unavailable");
    if (isRefused(error)) this.#refusing.add(address);
    else this.#refusing.delete(address);
    world.log("debug", `orchestrator ${withoutKey(address)}: ${this.failure.message}`);
  }

  /** Once a reason, not once an attempt. */
  #tellAlone(): void {
    const why = this.failure?.message ?? "the stream ended";
    if (why === this.#told) return;
    this.#told = why;
    this.#options.world.log("warn", `not attached to an orchestrator, trying again: ${why}`);
  }

  /** An orchestrator answered, but not with a registration. */
  get refused(): boolean {
    const code = this.failure?.code;
    return code !== undefined && code !== "unavailable" && code !== "cancelled";
  }

  /** Gives up on an orchestrator that does not register in time, or falls silent. */
  #watch(close: () => void): Cancel {
    const { world, timings, pulse } = this.#options;
    let cancel: Cancel = () => {};
    let dueMs = 0;
    const wait = (delayMs: number) => {
      dueMs = world.clock.monotonicMs() + delayMs;
      cancel = world.timers.after(delayMs, check);
    };
    const check = () => {
      const nowMs = world.clock.monotonicMs();
      // While this thread was held up itself, nobody was silent: what came is still to be read.
      this.#heardMs = Math.min(nowMs, Math.max(this.#heardMs + Math.max(0, nowMs - dueMs), pulse?.heardMs ?? 0));
      const silentMs = nowMs - this.#heardMs;
      const limitMs = this.#registered
        ? Math.max(this.#patience.limitMs, timings.silentMs, 3 * this.#intervalMs)
        : this.#registerMs;
      if (silentMs >= limitMs) close();
      else wait(Math.max(10, limitMs - silentMs));
    };
    wait(this.#registerMs);
    return () => cancel();
  }

  #handle({ event }: AttachResponse, address: string): void {
    switch (event.case) {
      case "registered":
        this.#registered = true;
        this.#refusing.clear();
        this.failure = undefined;
        this.#told = "";
        this.#onAttached();
        this.#options.world.log(
          "info",
          `attached to orchestrator ${event.value.orchestrator} at ${withoutKey(address)}`,
        );
        this.#options.orchestrators.learn(event.value.orchestrators);
        this.#options.onRegistered(event.value);
        if (event.value.heartbeatIntervalMs > 0) this.#intervalMs = event.value.heartbeatIntervalMs;
        if (event.value.pulseToken !== "")
          this.#options.pulse?.follow(address, event.value.pulseToken, this.#intervalMs);
        for (const change of this.#untold) this.#tell(change);
        this.#untold = [];
        this.#beat();
        if (this.#leaving !== undefined) this.#sendLeave(this.#leaving);
        break;
      case "assignments":
        this.#options.onAssignments(event.value);
        break;
      case "prepare":
        this.#options.onPrepare(event.value);
        break;
      case "standBy":
        this.#options.onStandBy(event.value);
        break;
      case "session":
        this.#options.onSession(event.value);
        break;
      case "circle":
        this.#options.onCircle(event.value);
        break;
      case "leaveGranted":
        this.#options.onLeaveGranted();
        break;
      case "reached":
        this.#options.onReached(event.value);
        break;
      case "relays":
        this.#options.onRelays(event.value);
        break;
      case "heartbeatAck":
        this.#acknowledged(event.value.sequence);
        break;
      case undefined:
        break;
    }
  }

  #acknowledged(sequence: bigint): void {
    this.#options.reports.acknowledged(sequence);
    const sentMs = this.#sentMs.get(sequence);
    if (sentMs !== undefined) {
      const tookMs = this.#heardMs - sentMs;
      this.#roundTripsMs = [...this.#roundTripsMs, tookMs].slice(-roundTripsKept);
      this.#patience = this.#patience.heard(tookMs);
    }
    for (const sent of this.#sentMs.keys()) if (sent <= sequence) this.#sentMs.delete(sent);
    for (const waiting of this.#waiting) if (waiting.sequence <= sequence) waiting.done();
    this.#waiting = this.#waiting.filter((waiting) => waiting.sequence > sequence);
  }

  /** A heartbeat now, and from here on one each interval. */
  beatSoon(): void {
    if (!this.#registered) return;
    // The one on its way may have been filled before there was something to tell: another follows it.
    if (this.#beating) this.#beatAgain = true;
    else {
      this.#cancelBeat();
      this.#beat();
    }
  }

  #beat(): void {
    const { world } = this.#options;
    this.#cancelBeat = world.timers.after(this.#intervalMs, () => this.#beat());
    if (this.#beating) return;
    this.#beating = true;
    void this.#sendBeat().finally(() => {
      this.#beating = false;
      if (!this.#beatAgain) return;
      this.#beatAgain = false;
      this.beatSoon();
    });
  }

  async #sendBeat(): Promise<void> {
    const stream = this.#stream;
    const { reports } = this.#options;
    if (stream === undefined || !this.#registered) return;
    const sequence = ++this.#sequence;
    const metrics = reports.metricsFor(sequence);
    const value = { ...this.#options.heartbeat(), sequence, metrics, latencyMs: this.latencyMs };
    this.#sentMs.set(sequence, this.#options.world.clock.monotonicMs());
    try {
      await stream.send({ event: { case: "heartbeat", value } });
      for (let evidence = reports.takeEvidence(); evidence !== undefined; evidence = reports.takeEvidence()) {
        try {
          await stream.send({ event: { case: "evidence", value: evidence } });
        } catch (error) {
          reports.giveBack(evidence);
          throw error;
        }
      }
    } catch {
      // The reader of the stream notices as well, and tries the next orchestrator.
      stream.close();
    }
  }

  /** Resolves once what was reported so far has arrived, or after a while if it cannot. */
  async flush(): Promise<void> {
    if (!this.#registered) return;
    const { world, signal } = this.#options;
    const following = this.#beating ? 1n : 0n;
    this.beatSoon();
    const sequence = this.#sequence + following;
    const arrived = new Promise<void>((done) => this.#waiting.push({ sequence, done }));
    await Promise.race([arrived, sleep(world.timers, flushTimeoutMs, signal)]);
  }

  /** What was registered has changed. */
  tellMeasurement(measurement: MessageInitShape<typeof MeasurementSchema>): void {
    this.#tell({ case: "measurement", value: measurement });
  }

  /** Other routes than were registered lead here now. */
  tellMoved(routes: readonly string[]): void {
    this.#tell({ case: "moved", value: { routes: [...routes] } });
  }

  /** While a registration is on its way it waits for the answer; without a stream the next one registers it anew. */
  #tell(change: Change): void {
    if (this.#registered) this.#stream?.send({ event: change }).catch(() => {});
    else
      this.#untold = [...this.#untold.filter((one) => one.case === "measurement" || one.case !== change.case), change];
  }

  leave(reason: string): void {
    this.#leaving = reason;
    if (this.#registered) this.#sendLeave(reason);
  }

  #sendLeave(reason: string): void {
    this.#stream?.send({ event: { case: "leave", value: { reason } } }).catch(() => {});
  }
}

function clampRegister(ms: number, { registerTimeoutMs }: Timings): number {
  return Math.max(registerTimeoutMs, Math.min(ms, registerTimeoutMsMax));
}
