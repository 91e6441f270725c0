// One end of a socket on which many calls travel: frames out, the urgent ones first and streams in turn, frames in, and
// whether the other end still lives. It knows nothing of methods or rights, and nothing of what the socket is: a WebSocket of a
// browser or of Node, or what a relay carries.

import { DcnrError, fail } from "../../core/errors.ts";
import type { Cancel, Timers } from "../../core/world.ts";
import { within } from "../connections/deadline.ts";
import type { LivenessLimits } from "../connections/liveness.ts";
import type { Line } from "../routes/line.ts";
import { CarriedStream, type StreamSocket } from "./carried-stream.ts";
import {
  decodeFrame,
  decodeNumber,
  decodeStatus,
  encodeFrame,
  encodeNumber,
  type FrameKind,
  type SocketFrame,
  socketVersion,
} from "./socket-frames.ts";

/** Somebody who asks and never reads the answers is let go. */
const urgentMax = 16_384;

export interface CarrierOptions {
  readonly timers: Timers;
  readonly limits: LivenessLimits;
  /** Somebody calls; absent at an end that only calls. */
  readonly called?: ((stream: CarriedStream, head: Uint8Array) => void) | undefined;
  /** The other end has said hello. */
  readonly greeted?: () => void;
  /** Once, when nothing is carried any more. */
  readonly over: (failure: DcnrError) => void;
}

export class Carrier implements StreamSocket {
  readonly #line: Line;
  readonly #options: CarrierOptions;
  readonly #streams = new Map<number, CarriedStream>();
  /** Goes before all data: small, and others wait for it. */
  readonly #urgent: Uint8Array[] = [];
  /** Streams that have something to send, in turn. */
  readonly #wanting = new Set<CarriedStream>();
  #writing = false;
  #lastNumber = 0;
  #greeted = false;
  #isOver = false;
  #heard = false;
  #wrote = false;
  #liveness: Cancel = () => {};

  constructor(line: Line, options: CarrierOptions) {
    this.#line = line;
    this.#options = options;
    this.#say("hello", 0, encodeNumber(socketVersion));
    void this.#read();
  }

  get streams(): number {
    return this.#streams.size;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** A new call. */
  open(head: Uint8Array): CarriedStream {
    const stream = this.#made(++this.#lastNumber);
    this.#say("open", stream.number, head);
    stream.welcome();
    return stream;
  }

  /** The call is let in: more of it may come. */
  begin(stream: CarriedStream): void {
    this.#say("begun", stream.number);
    stream.welcome();
  }

  /** The caller sends nothing more on it. */
  finish(stream: CarriedStream): void {
    stream.afterAll(() => this.#say("end", stream.number));
  }

  /** The call has ended; what waits to be sent goes out before. */
  end(stream: CarriedStream, status: Uint8Array): void {
    stream.afterAll(() => {
      this.#say("status", stream.number, status);
      this.#forget(stream);
    });
  }

  /** Whoever calls leaves: at once. */
  reset(stream: CarriedStream): void {
    if (stream.isOver) return;
    this.#say("reset", stream.number);
    this.#forget(stream);
  }

  wants(stream: CarriedStream): void {
    this.#wanting.add(stream);
    void this.#write();
  }

  grant(stream: number, bytes: number): void {
    this.#say("credit", stream, encodeNumber(bytes));
  }

  close(why = new DcnrError("cancelled", "the socket was closed by this process")): void {
    this.#fail(why);
  }

  #made(number: number): CarriedStream {
    const stream = new CarriedStream(number, this);
    this.#streams.set(number, stream);
    if (this.#streams.size === 1) this.#listen();
    return stream;
  }

  #forget(stream: CarriedStream): void {
    stream.over();
    this.#wanting.delete(stream);
    this.#streams.delete(stream.number);
    if (this.#streams.size === 0) this.#liveness();
  }

  #say(kind: FrameKind, stream = 0, payload?: Uint8Array): void {
    if (this.#isOver) return;
    if (this.#urgent.length >= urgentMax)
      return void this.#fail(new DcnrError("resource_exhausted", "the other end does not read what it is told"));
    this.#urgent.push(payload ? encodeFrame(kind, stream, payload) : encodeFrame(kind, stream));
    void this.#write();
  }

  async #write(): Promise<void> {
    if (this.#writing || this.#isOver) return;
    this.#writing = true;
    try {
      for (;;) {
        const urgent = this.#urgent.shift();
        const [next] = this.#wanting;
        if (this.#isOver || (urgent === undefined && next === undefined)) break;
        if (urgent !== undefined) await this.#line.send(urgent);
        else if (next !== undefined) {
          this.#wanting.delete(next);
          if (!next.maySend) continue;
          await this.#line.send(encodeFrame("data", next.number, ...next.take()));
          if (next.maySend) this.#wanting.add(next);
          next.sent();
        }
        this.#wrote = true;
      }
    } catch (error) {
      this.#fail(DcnrError.from(error, "unavailable"));
    } finally {
      this.#writing = false;
    }
  }

  async #read(): Promise<void> {
    try {
      for await (const message of this.#line.incoming) {
        if (this.#isOver) return;
        this.#heard = true;
        this.#received(decodeFrame(message));
      }
      this.#fail(new DcnrError("unavailable", "the other end closed the socket"));
    } catch (error) {
      this.#fail(DcnrError.from(error, "unavailable"));
    }
  }

  #received({ kind, stream: number, payload }: SocketFrame): void {
    if (!this.#greeted) return void this.#meet(kind, payload);
    if (kind === "ping") return void this.#say("pong");
    if (kind === "pong") return;
    if (kind === "open") return void this.#called(number, payload);
    const stream = this.#streams.get(number);
    // Of one that is over here, and of which the other end has not heard yet.
    if (stream === undefined) return;
    switch (kind) {
      case "begun":
        return void stream.listener?.begun?.();
      case "data":
        return void stream.received(payload);
      case "credit":
        return void stream.credited(decodeNumber(payload));
      case "end":
        return void stream.listener?.finished?.();
      case "status":
      case "reset": {
        const { listener } = stream;
        this.#forget(stream);
        return void listener?.ended(kind === "status" ? decodeStatus(payload) : undefined);
      }
      default:
        fail("invalid_argument", `a ${kind} is not expected here`);
    }
  }

  #meet(kind: FrameKind, payload: Uint8Array): void {
    if (kind !== "hello" || decodeNumber(payload) !== socketVersion)
      fail("unimplemented", `calls over sockets of version ${socketVersion} are spoken here, and nothing else`);
    this.#greeted = true;
    this.#options.greeted?.();
  }

  #called(number: number, head: Uint8Array): void {
    const { called } = this.#options;
    if (called === undefined || number <= this.#lastNumber) fail("invalid_argument", "nobody may call by this number");
    this.#lastNumber = number;
    called(this.#made(number), head);
  }

  /** While anything is open: when nothing has come for a while the other end is asked, and has so long to say anything. */
  #listen(): void {
    const { timers, limits } = this.#options;
    this.#liveness();
    const wait = (asked: boolean) => {
      this.#heard = false;
      this.#wrote = false;
      this.#liveness = within(timers, asked ? limits.pingMs : limits.quietMs, () => {
        if (this.#heard) return wait(false);
        // What waits to be written gets on, over a slow line: a ping would queue behind it.
        const moves = this.#wrote && [...this.#streams.values()].some(({ queuedBytes }) => queuedBytes > 0);
        if (asked && !moves)
          return this.#fail(new DcnrError("unavailable", `the other end says nothing (waited ${limits.pingMs} ms)`));
        if (!asked) this.#say("ping");
        wait(true);
      });
    };
    wait(false);
  }

  #fail(failure: DcnrError): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#liveness();
    const streams = [...this.#streams.values()];
    this.#streams.clear();
    for (const stream of streams) stream.over();
    this.#options.over(failure);
    for (const { listener } of streams) listener?.broken(failure);
    this.#line.close();
  }
}
