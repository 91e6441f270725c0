// One end of a gRPC stream of messages on a wire of bytes (an HTTP/2 stream, a stream on a socket), without the layers of
// iterators that a general library has around it: what VNodes exchange passes here many times a second.

import { create, type DescMessage, fromBinary, type MessageInitShape, type MessageShape } from "@bufbuild/protobuf";
import { assert } from "../../core/assert.ts";
import { DcnrError, fail, messageOf } from "../../core/errors.ts";
import { encodeFrame, FrameReader, prefixBytes } from "./frames.ts";

/** What arrived and nobody has read yet; beyond it flow control holds the sender back. */
const unreadBytesMax = 4 << 20;

/** What carries a pipe's bytes. Whoever makes one pushes what arrives into the pipe and says when there is room again. */
export interface Wire {
  /** False: there is no room for more until the pipe hears that it has drained. */
  write(pieces: readonly Uint8Array[]): boolean;
  /** Nothing more should come until `resume`; some may be under way. */
  pause(): void;
  resume(): void;
}

interface Waiting<T> {
  readonly resolve: (result: IteratorResult<T, undefined>) => void;
  readonly reject: (error: DcnrError) => void;
}

type Incoming = MessageShape<DescMessage>;

export class Pipe implements AsyncIterableIterator<Incoming, undefined> {
  readonly #input: DescMessage;
  readonly #output: DescMessage;
  readonly #onLeft: () => void;
  readonly #hold: (bytes: number) => boolean;
  readonly #reader = new FrameReader((frame) => this.#arrived(frame));
  readonly #unread: Uint8Array[] = [];
  #unreadBytes = 0;
  #wire: Wire | undefined;
  #waiting: Waiting<Incoming> | undefined;
  #drained: PromiseWithResolvers<void> | undefined;
  #ended = false;
  /** Why it ended, if not as it should; readers hear of it once. */
  #failure: DcnrError | undefined;
  /** Why nothing can be sent any more. */
  #broken: DcnrError | undefined;

  /**
   * `onLeft` hears when the reader leaves early; `hold` of bytes that have come and are not read, and (negative) that are,
   * and says whether that is still bearable.
   */
  constructor(
    input: DescMessage,
    output: DescMessage,
    onLeft: () => void,
    hold: (bytes: number) => boolean = () => true,
  ) {
    this.#input = input;
    this.#output = output;
    this.#onLeft = onLeft;
    this.#hold = hold;
  }

  /** From now on messages flow. */
  attach(wire: Wire): void {
    this.#wire = wire;
  }

  /** The wire has room again. */
  drained(): void {
    this.#drained?.resolve();
    this.#drained = undefined;
  }

  /** Resolves when more may be sent. */
  send(message: MessageInitShape<DescMessage>): Promise<void> {
    if (this.#broken !== undefined) return Promise.reject(this.#broken);
    const wire = this.#wire;
    assert(wire !== undefined, "a pipe is attached, or ended, before it is given to anybody");
    let pieces: Uint8Array[];
    try {
      pieces = encodeFrame(this.#output, create(this.#output, message));
    } catch (error) {
      this.end(DcnrError.from(error));
      return Promise.reject(this.#broken);
    }
    if (wire.write(pieces)) return done;
    this.#drained ??= Promise.withResolvers();
    return this.#drained.promise;
  }

  /** Bytes have come. */
  push(chunk: Uint8Array): void {
    if (this.#ended) return;
    try {
      if (!this.#hold(chunk.byteLength))
        fail("resource_exhausted", "refused: too many bytes of yours, or in all, are in memory; try again later");
      this.#reader.push(chunk);
    } catch (error) {
      this.end(DcnrError.from(error));
    }
  }

  #arrived(frame: Uint8Array): void {
    if (this.#ended) return;
    const waiting = this.#waiting;
    this.#unread.push(frame);
    this.#unreadBytes += frame.byteLength;
    if (waiting !== undefined) {
      this.#waiting = undefined;
      this.next().then(waiting.resolve, waiting.reject);
    }
    if (this.#unreadBytes > unreadBytesMax) this.#wire?.pause();
  }

  async next(): Promise<IteratorResult<Incoming, undefined>> {
    const frame = this.#unread.shift();
    if (frame !== undefined) {
      const wasFull = this.#unreadBytes > unreadBytesMax;
      this.#unreadBytes -= frame.byteLength;
      this.#hold(-frame.byteLength - prefixBytes);
      if (wasFull && this.#unreadBytes <= unreadBytesMax) this.#wire?.resume();
      return { done: false, value: this.#decode(frame) };
    }
    if (this.#ended) {
      const failure = this.#failure;
      this.#failure = undefined;
      if (failure !== undefined) throw failure;
      return { done: true, value: undefined };
    }
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
    });
  }

  #decode(frame: Uint8Array): Incoming {
    try {
      return fromBinary(this.#input, frame);
    } catch (error) {
      throw new DcnrError("invalid_argument", `a message cannot be read: ${messageOf(error)}`);
    }
  }

  /** The reader leaves. */
  async return(): Promise<IteratorResult<Incoming, undefined>> {
    this.#unread.length = 0;
    this.endReading();
    this.#onLeft();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** Nothing more comes: readers get what has arrived, then the failure or the end. */
  endReading(failure?: DcnrError): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#failure = failure ?? (this.#reader.isBetween ? undefined : brokenOff());
    const waiting = this.#waiting;
    this.#waiting = undefined;
    if (waiting !== undefined) this.next().then(waiting.resolve, waiting.reject);
  }

  /** Neither way carries anything any more. */
  end(failure?: DcnrError): void {
    this.endReading(failure);
    this.break(failure ?? new DcnrError("unavailable", "the stream has ended"));
  }

  /** Nothing more can be sent. */
  break(error: DcnrError): void {
    if (this.#broken !== undefined) return;
    this.#broken = error;
    const drained = this.#drained;
    this.#drained = undefined;
    drained?.promise.catch(() => {});
    drained?.reject(error);
  }
}

const done = Promise.resolve();

function brokenOff(): DcnrError {
  return new DcnrError("unavailable", "the stream broke off within a message");
}
