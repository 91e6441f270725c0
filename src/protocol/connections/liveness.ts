// Tells whether the other end of an HTTP/2 connection still lives while somebody needs it: when nothing has come for a
// while it is pinged, and when nothing comes then either it is silent. TCP alone would notice after many minutes.

import type { Http2Session, Http2Stream } from "node:http2";
import type { Cancel, Timers } from "../../core/world.ts";
import { within } from "./deadline.ts";

export interface LivenessLimits {
  /** Without a byte for this long, a ping is sent. */
  readonly quietMs: number;
  /** Without a byte for this long after a ping, the other end is silent. */
  readonly pingMs: number;
}

export class Liveness {
  readonly #session: Http2Session;
  readonly #streams: Iterable<Http2Stream>;
  readonly #timers: Timers;
  readonly #limits: LivenessLimits;
  readonly #silent: () => void;
  #cancel: Cancel | undefined;
  #read = 0;
  #written = 0;

  /** `streams` are the open ones: they tell whether something waits to be written. */
  constructor(
    session: Http2Session,
    streams: Iterable<Http2Stream>,
    timers: Timers,
    limits: LivenessLimits,
    silent: () => void,
  ) {
    this.#session = session;
    this.#streams = streams;
    this.#timers = timers;
    this.#limits = limits;
    this.#silent = silent;
  }

  /** From now on somebody needs the connection. */
  start(): void {
    if (this.#cancel === undefined) this.#listen();
  }

  stop(): void {
    this.#cancel?.();
    this.#cancel = undefined;
  }

  /** Asks at once, since what was heard last is old. */
  ask(): void {
    this.stop();
    this.#hears();
    this.#ping();
  }

  #listen(): void {
    this.#hears();
    this.#cancel = within(this.#timers, this.#limits.quietMs, () => (this.#hears() ? this.#listen() : this.#ping()));
  }

  #ping(): void {
    if (this.#session.destroyed) return;
    const arm = () => {
      this.#cancel = within(this.#timers, this.#limits.pingMs, () => {
        if (this.#hears() || this.#moves()) arm();
        else this.#silent();
      });
    };
    arm();
    this.#moves();
    this.#session.ping((error) => {
      // Whoever breaks the connection tells everybody; a pong that nobody waits for any more says nothing.
      if (error === null && this.#cancel !== undefined) {
        this.stop();
        this.#listen();
      }
    });
  }

  /** Whether anything has come since this was last asked. */
  #hears(): boolean {
    if (this.#session.destroyed) return false;
    const { bytesRead = 0 } = this.#session.socket;
    const heard = bytesRead > this.#read;
    this.#read = bytesRead;
    return heard;
  }

  /**
   * Whether what waits to be written gets on: over a slow line a ping queues behind megabytes. Without a queue it would
   * mean nothing, since the operating system takes small writes for a dead peer too.
   */
  #moves(): boolean {
    if (this.#session.destroyed) return false;
    const { bytesWritten = 0 } = this.#session.socket;
    const moved = bytesWritten > this.#written;
    this.#written = bytesWritten;
    return moved && [...this.#streams].some(({ writableLength }) => writableLength > 0);
  }
}
