// A line as the stream that TLS wants to speak on. Small pieces that wait together go out together.

import { Duplex } from "node:stream";
import { DcnrError } from "../../core/errors.ts";
import type { Line } from "./line.ts";

/** Larger pieces would hold others up; smaller ones cost more each than their bytes. */
const pieceBytesMax = 256 << 10;

export class LineSocket extends Duplex {
  readonly #line: Line;
  readonly #incoming: AsyncIterator<Uint8Array>;
  /** For servers, which count guests by their addresses: whoever carries it and for whom. */
  readonly remoteAddress: string;
  #reading = false;

  constructor(line: Line, remoteAddress: string) {
    super({ allowHalfOpen: false, readableHighWaterMark: pieceBytesMax, writableHighWaterMark: pieceBytesMax });
    this.#line = line;
    this.#incoming = line.incoming[Symbol.asyncIterator]();
    this.remoteAddress = remoteAddress;
  }

  setNoDelay(): this {
    return this;
  }

  override _read(): void {
    if (this.#reading) return;
    this.#reading = true;
    this.#incoming.next().then(
      (next) => {
        this.#reading = false;
        this.push(next.done ? null : next.value);
      },
      (error) => this.destroy(DcnrError.from(error, "unavailable")),
    );
  }

  override _write(piece: Uint8Array, _: string, done: (error?: Error) => void): void {
    this.#send([piece]).then(() => done(), done);
  }

  override _writev(pieces: { readonly chunk: Uint8Array }[], done: (error?: Error) => void): void {
    this.#send(pieces.map(({ chunk }) => chunk)).then(() => done(), done);
  }

  async #send(pieces: readonly Uint8Array[]): Promise<void> {
    let waiting: Uint8Array[] = [];
    let bytes = 0;
    const flush = async () => {
      const [only] = waiting;
      if (only !== undefined) await this.#line.send(waiting.length === 1 ? only : Buffer.concat(waiting, bytes));
      waiting = [];
      bytes = 0;
    };
    for (const piece of pieces)
      for (let at = 0; at < piece.byteLength; at += pieceBytesMax) {
        const part = piece.subarray(at, at + pieceBytesMax);
        if (bytes + part.byteLength > pieceBytesMax) await flush();
        waiting.push(part);
        bytes += part.byteLength;
      }
    await flush();
  }

  override _final(done: (error?: Error) => void): void {
    this.#line.close();
    done();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#line.close();
    done(error);
  }
}
