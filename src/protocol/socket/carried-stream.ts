// One stream of a socket that carries many: what waits to be sent on it, and how much either end may still send. A slow
// reader holds up its own stream and no other.

import { type DcnrError, fail } from "../../core/errors.ts";
import type { Wire } from "../streams/pipe.ts";
import type { CallStatus } from "../streams/wire-errors.ts";
import { firstCreditBytes, pieceBytesMax, streamWindowBytes } from "./socket-frames.ts";

/** What a stream's owner hears. After `ended` or `broken` nothing more comes. */
export interface StreamListener {
  data(bytes: Uint8Array): void;
  drained(): void;
  /** The other end has let the call in. */
  begun?(): void;
  /** The caller sends nothing more. */
  finished?(): void;
  /** How the call ended; undefined when the caller left. */
  ended(status: CallStatus | undefined): void;
  /** The socket has broken. */
  broken(failure: DcnrError): void;
}

/** What a stream needs of the socket. */
export interface StreamSocket {
  /** The stream has something to send, and may. */
  wants(stream: CarriedStream): void;
  grant(stream: number, bytes: number): void;
}

/** Beyond it, whoever writes should wait. */
const queuedBytesMax = 64 << 10;

export class CarriedStream implements Wire {
  readonly number: number;
  readonly #socket: StreamSocket;
  listener: StreamListener | undefined;
  readonly #queue: Uint8Array[] = [];
  #queuedBytes = 0;
  #isFull = false;
  /** What may be sent. */
  #credit = firstCreditBytes;
  /** What the other end may send, and what it may not yet although it was taken. */
  #allowed = firstCreditBytes;
  #taken = 0;
  #isPaused = false;
  isOver = false;
  /** What goes out behind what waits. */
  #last: (() => void) | undefined;

  constructor(number: number, socket: StreamSocket) {
    this.number = number;
    this.#socket = socket;
  }

  get queuedBytes(): number {
    return this.#queuedBytes;
  }

  write(pieces: readonly Uint8Array[]): boolean {
    if (this.isOver || this.#last !== undefined) return true;
    for (const piece of pieces) {
      this.#queue.push(piece);
      this.#queuedBytes += piece.byteLength;
    }
    this.#isFull = this.#queuedBytes > queuedBytesMax;
    if (this.maySend) this.#socket.wants(this);
    return !this.#isFull;
  }

  /** Does something once all that waits has gone out. */
  afterAll(last: () => void): void {
    if (this.isOver || this.#last !== undefined) return;
    this.#last = last;
    if (this.#queuedBytes === 0) last();
  }

  get maySend(): boolean {
    return !this.isOver && this.#queuedBytes > 0 && this.#credit > 0;
  }

  /** The next bytes, as pieces of one frame; they count as sent. */
  take(): Uint8Array[] {
    let room = Math.min(pieceBytesMax, this.#credit);
    const pieces: Uint8Array[] = [];
    for (let next = this.#queue[0]; next !== undefined && room > 0; next = this.#queue[0]) {
      const piece = next.subarray(0, room);
      if (piece.byteLength === next.byteLength) this.#queue.shift();
      else this.#queue[0] = next.subarray(room);
      if (piece.byteLength > 0) pieces.push(piece);
      room -= piece.byteLength;
      this.#credit -= piece.byteLength;
      this.#queuedBytes -= piece.byteLength;
    }
    return pieces;
  }

  /** A frame of it has gone out. */
  sent(): void {
    if (this.#queuedBytes > 0 || this.isOver) return;
    if (this.#last !== undefined) return void this.#last();
    if (!this.#isFull) return;
    this.#isFull = false;
    this.listener?.drained();
  }

  credited(bytes: number): void {
    this.#credit += bytes;
    if (this.#credit > streamWindowBytes) fail("invalid_argument", "more credit was given than a stream may have");
    if (this.maySend) this.#socket.wants(this);
  }

  /** From now on as much may come as a stream may have under way. */
  welcome(): void {
    this.#taken += streamWindowBytes - firstCreditBytes;
    this.#giveBack();
  }

  received(bytes: Uint8Array): void {
    this.#allowed -= bytes.byteLength;
    if (this.#allowed < 0) fail("invalid_argument", "more was sent on a stream than it had credit for");
    this.#taken += bytes.byteLength;
    this.listener?.data(bytes);
    if (!this.#isPaused) this.#giveBack();
  }

  pause(): void {
    this.#isPaused = true;
  }

  resume(): void {
    this.#isPaused = false;
    this.#giveBack();
  }

  /** In halves of a window: a frame for each piece would be one too many. */
  #giveBack(): void {
    if (this.isOver || this.#taken < streamWindowBytes / 2) return;
    const bytes = this.#taken;
    this.#taken = 0;
    this.#allowed += bytes;
    this.#socket.grant(this.number, bytes);
  }

  /** Nothing is sent on it or read from it any more. */
  over(): void {
    this.isOver = true;
    this.#queue.length = 0;
    this.#queuedBytes = 0;
  }
}
