// Calls and streams to other processes as gRPC has them, whatever carries the streams.

import type { DescMessage, DescMethod, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import { DcnrError, fail } from "../core/errors.ts";
import type { Timers } from "../core/world.ts";
import { within } from "./connections/deadline.ts";
import {
  type BidiMethod,
  type CallOptions,
  type Channel,
  callTimeoutMsDefault,
  type RequestInit,
  type ResponseOf,
  type ServerStreamMethod,
  type UnaryMethod,
} from "./network.ts";
import { withoutKey } from "./routes/address.ts";
import type { Pipe } from "./streams/pipe.ts";

/** The calling end of one stream. */
export interface ClientStream {
  readonly pipe: Pipe;
  /** Says that nothing more will be sent. */
  finish(): void;
  /** Ends both ways at once; readers just come to the end, or to the failure if one is given. */
  cancel(failure?: DcnrError): void;
}

/** Opens a stream; failures come to whoever reads or sends. */
export type OpenStream = (
  address: string,
  method: DescMethod,
  headers: Readonly<Record<string, string>>,
  signal: AbortSignal | undefined,
) => ClientStream;

/** gRPC writes it with at most eight digits. */
const callTimeoutMsMax = 99_999_999;

type Message = MessageInitShape<DescMessage>;

export class GrpcClient {
  readonly #openStream: OpenStream;
  readonly #timers: Timers;
  readonly #headers: Readonly<Record<string, string>>;

  /** `headers` go with every call. */
  constructor(openStream: OpenStream, headers: Readonly<Record<string, string>>, timers: Timers) {
    this.#openStream = openStream;
    this.#headers = headers;
    this.#timers = timers;
  }

  async call<M extends UnaryMethod>(
    address: string,
    method: M,
    request: RequestInit<M>,
    options?: CallOptions,
  ): Promise<ResponseOf<M>> {
    const timeoutMs = Math.min(options?.timeoutMs ?? callTimeoutMsDefault, callTimeoutMsMax);
    const headers = { ...this.#headers, "grpc-timeout": `${Math.ceil(timeoutMs)}m` };
    const call = this.#openStream(address, method, headers, options?.signal);
    const what = `${method.name} at ${withoutKey(address)}`;
    const expired = within(this.#timers, timeoutMs, () =>
      call.cancel(new DcnrError("deadline_exceeded", `${what}: no answer within ${timeoutMs} ms`)),
    );
    try {
      // If it cannot be sent, reading tells why.
      call.pipe.send(request as Message).catch(() => {});
      call.finish();
      const answer = await call.pipe.next();
      if (answer.done && options?.signal?.aborted) fail("cancelled", `${what}: the call was cancelled`);
      if (answer.done) fail("internal", `${what}: ended without an answer`);
      // How the call ended comes after the answer.
      await call.pipe.next();
      return answer.value as ResponseOf<M>;
    } finally {
      expired();
      call.cancel();
    }
  }

  async *watch<M extends ServerStreamMethod>(
    address: string,
    method: M,
    request: RequestInit<M>,
    options?: CallOptions,
  ): AsyncGenerator<ResponseOf<M>> {
    const call = this.#open(address, method, options);
    try {
      call.pipe.send(request as Message).catch(() => {});
      call.finish();
      for await (const message of call.pipe) yield message as ResponseOf<M>;
    } catch (error) {
      if (!options?.signal?.aborted) throw error;
    } finally {
      call.cancel();
    }
  }

  open<M extends BidiMethod>(
    address: string,
    method: M,
    options?: CallOptions,
  ): Channel<RequestInit<M>, ResponseOf<M>> {
    const { pipe, cancel } = this.#open(address, method, options);
    return {
      send: (message) => pipe.send(message as Message),
      incoming: pipe as AsyncIterable<MessageShape<DescMessage>> as AsyncIterable<ResponseOf<M>>,
      close: () => cancel(),
    };
  }

  #open(address: string, method: DescMethod, options: CallOptions | undefined): ClientStream {
    return this.#openStream(address, method, this.#headers, options?.signal);
  }
}
