// The calling end of calls on sockets: one socket to an address, opened when it is first needed and closed when it has been idle.
// Every phase of its life has a deadline, as on a connection of HTTP/2. Runs in browsers too.

import type { DescMethod } from "@bufbuild/protobuf";
import { DcnrError } from "../../core/errors.ts";
import type { Cancel, Timers } from "../../core/world.ts";
import type { ConnectionLimits } from "../connections/connection-limits.ts";
import { within } from "../connections/deadline.ts";
import type { ClientStream } from "../grpc-client.ts";
import { withoutKey } from "../routes/address.ts";
import type { Line } from "../routes/line.ts";
import { Pipe } from "../streams/pipe.ts";
import { fromStatus } from "../streams/wire-errors.ts";
import type { CarriedStream } from "./carried-stream.ts";
import { Carrier } from "./carrier.ts";
import { encodeHead } from "./socket-frames.ts";

export interface CallingOptions {
  readonly timers: Timers;
  readonly limits: ConnectionLimits;
  /** A line to whoever answers at an address, proved to be who it should be. */
  readonly connect: (address: string, signal: AbortSignal) => Promise<Line>;
}

/** A stream that waits for its socket, or has it. */
interface Held {
  begin(carrier: Carrier): void;
  failed(failure: DcnrError): void;
}

class Socket {
  readonly #options: CallingOptions;
  readonly #place: string;
  readonly #ended: () => void;
  readonly #connecting = new AbortController();
  readonly #waiting = new Set<Held>();
  readonly #open = new Set<Held>();
  #carrier: Carrier | undefined;
  #deadline: Cancel;
  isOver = false;

  constructor(address: string, options: CallingOptions, ended: () => void) {
    const { limits, connect } = options;
    this.#options = options;
    this.#place = withoutKey(address);
    this.#ended = ended;
    this.#deadline = this.#late(limits.connectMs, "cannot be connected to");
    connect(address, this.#connecting.signal).then(
      (line) => this.#connected(line),
      (error: unknown) => this.fail(DcnrError.from(error, "unavailable")),
    );
  }

  hold(held: Held): void {
    if (this.#open.size + this.#waiting.size === 0 && this.#carrier) this.#deadline();
    if (this.#carrier === undefined) this.#waiting.add(held);
    else {
      this.#open.add(held);
      held.begin(this.#carrier);
    }
  }

  release(held: Held): void {
    this.#waiting.delete(held);
    if (!this.#open.delete(held) || this.#open.size > 0 || this.isOver) return;
    this.#deadline();
    this.#deadline = within(this.#options.timers, this.#options.limits.idleMs, () =>
      this.fail(new DcnrError("cancelled", `the socket to ${this.#place} was idle`)),
    );
  }

  #connected(line: Line): void {
    if (this.isOver) return void line.close();
    const { timers, limits } = this.#options;
    this.#deadline();
    this.#deadline = this.#late(limits.helloMs, "accepts connections and says nothing");
    const carrier = new Carrier(line, {
      ...{ timers, limits },
      greeted: () => this.#deadline(),
      over: (failure) => this.fail(new DcnrError(failure.code, `${this.#place}: ${failure.message}`)),
    });
    this.#carrier = carrier;
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const held of waiting) {
      this.#open.add(held);
      held.begin(carrier);
    }
  }

  #late(limitMs: number, what: string): Cancel {
    const { timers } = this.#options;
    return within(timers, limitMs, () =>
      this.fail(new DcnrError("unavailable", `${this.#place} ${what} (waited ${limitMs} ms)`)),
    );
  }

  fail(failure: DcnrError): void {
    if (this.isOver) return;
    this.isOver = true;
    this.#deadline();
    this.#ended();
    this.#connecting.abort();
    for (const held of [...this.#waiting, ...this.#open]) held.failed(failure);
    this.#carrier?.close(failure);
  }
}

export class Calling {
  readonly #options: CallingOptions;
  readonly #current = new Map<string, Socket>();

  constructor(options: CallingOptions) {
    this.#options = options;
  }

  openStream(
    address: string,
    method: DescMethod,
    headers: Readonly<Record<string, string>>,
    signal: AbortSignal | undefined,
  ): ClientStream {
    const { input, output, parent, name } = method;
    let stream: CarriedStream | undefined;
    let carrier: Carrier | undefined;
    let socket: Socket | undefined;
    let isFinished = false;
    let late: Cancel = () => {};
    const left = () => cancel();
    const pipe = new Pipe(output, input, left);
    const over = (failure?: DcnrError) => {
      late();
      signal?.removeEventListener("abort", left);
      socket?.release(held);
      pipe.end(failure);
    };
    const cancel = (failure?: DcnrError) => {
      over(failure);
      if (stream !== undefined) carrier?.reset(stream);
    };
    const waiting: Uint8Array[] = [];
    // What is written before the socket stands goes out as soon as it does.
    pipe.attach({ write: (pieces) => waiting.push(...pieces) < 0, pause: () => {}, resume: () => {} });
    const held: Held = {
      failed: over,
      begin: (found) => {
        carrier = found;
        stream = found.open(encodeHead({ path: `/${parent.typeName}/${name}`, headers }));
        stream.listener = {
          data: (bytes) => pipe.push(bytes),
          drained: () => pipe.drained(),
          begun: () => late(),
          ended: (status) => {
            const { code, message, outlook } = status ?? { code: 14, message: "the call was left", outlook: "" };
            over(fromStatus(code, message, outlook, withoutKey(address)));
          },
          broken: over,
        };
        pipe.attach(stream);
        if (stream.write(waiting.splice(0))) pipe.drained();
        if (isFinished) found.finish(stream);
        // Whoever calls and waits for one answer says how long.
        if (method.methodKind !== "unary") late = this.#expectAnswer(address, cancel);
      },
    };
    if (signal?.aborted) pipe.end();
    else {
      signal?.addEventListener("abort", left, { once: true });
      socket = this.#to(address);
      socket.hold(held);
    }
    const finish = () => {
      isFinished = true;
      if (stream !== undefined) carrier?.finish(stream);
    };
    return { pipe, finish, cancel };
  }

  /** Everything on them fails as cancelled. */
  close(): void {
    for (const socket of [...this.#current.values()])
      socket.fail(new DcnrError("cancelled", "the socket was closed by this process"));
  }

  #expectAnswer(address: string, cancel: (failure: DcnrError) => void): Cancel {
    const { timers, limits } = this.#options;
    return within(timers, limits.answerMs, () => {
      const place = withoutKey(address);
      cancel(new DcnrError("unavailable", `${place} does not answer a stream within ${limits.answerMs} ms`));
    });
  }

  #to(address: string): Socket {
    const known = this.#current.get(address);
    if (known !== undefined) return known;
    const socket: Socket = new Socket(address, this.#options, () => {
      if (this.#current.get(address) === socket) this.#current.delete(address);
    });
    // One that failed while it was made is over.
    if (!socket.isOver) this.#current.set(address, socket);
    return socket;
  }
}
