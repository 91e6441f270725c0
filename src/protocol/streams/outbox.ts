// The sending half of a stream: a queue whose senders wait until the transport has taken their message,
// so that memory stays bounded by what senders hold, not by what they wish to send.

import { DcnrError } from "../../core/errors.ts";

interface Waiting<T> {
  readonly message: T;
  readonly taken: () => void;
  readonly broken: (error: DcnrError) => void;
}

export class Outbox<T> implements AsyncIterable<T> {
  readonly #queue: Waiting<T>[] = [];
  #wake: (() => void) | undefined;
  #closed = false;
  #error: DcnrError | undefined;

  send(message: T): Promise<void> {
    if (this.#error) return Promise.reject(this.#error);
    if (this.#closed) return Promise.reject(new DcnrError("unavailable", "the stream is closed"));
    return new Promise((taken, broken) => {
      this.#queue.push({ message, taken, broken });
      this.#wake?.();
    });
  }

  /** Lets what is queued go out, then ends the stream. */
  close(): void {
    this.#closed = true;
    this.#wake?.();
  }

  /** Ends the stream at once; everyone who waits to send learns why. */
  break(error: DcnrError): void {
    if (this.#error || (this.#closed && this.#queue.length === 0)) return;
    this.#error = error;
    this.#closed = true;
    for (const { broken } of this.#queue.splice(0)) broken(error);
    this.#wake?.();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T> {
    try {
      for (;;) {
        const next = this.#queue.shift();
        if (next) {
          next.taken();
          yield next.message;
        } else if (this.#closed) {
          return;
        } else {
          await new Promise<void>((wake) => {
            this.#wake = wake;
          });
          this.#wake = undefined;
        }
      }
    } finally {
      this.break(new DcnrError("unavailable", "the stream was closed by the other side"));
    }
  }
}
