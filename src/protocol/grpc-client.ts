// Calls and streams to other processes with gRPC over HTTP/2: one connection per address, kept and
// reopened by Connect's session manager, with flow-control windows large enough for tensors.

import type { ClientHttp2Session, ClientHttp2Stream } from "node:http2";
import { create, type DescMessage, type MessageInitShape, type MessageShape } from "@bufbuild/protobuf";
import type { Transport } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { DcnrError } from "../core/errors.ts";
import { baseUrl } from "./address.ts";
import type {
  BidiMethod,
  CallOptions,
  Channel,
  RequestInit,
  ResponseOf,
  ServerStreamMethod,
  UnaryMethod,
} from "./network.ts";
import { messageBytesMax, windowBytes } from "./network.ts";
import { Outbox } from "./outbox.ts";
import { fromWire } from "./wire-errors.ts";

/** A call that nobody answers must not hang for ever. */
const callTimeoutMsDefault = 10_000;

/** Opens each session's receive window wide; Connect has no option for the session's own window. */
class WideSessionManager extends Http2SessionManager {
  readonly #widened = new WeakSet<ClientHttp2Session>();

  override async request(...args: Parameters<Http2SessionManager["request"]>): Promise<ClientHttp2Stream> {
    const stream = await super.request(...args);
    const session = stream.session as ClientHttp2Session | undefined;
    if (session && !session.destroyed && !this.#widened.has(session)) {
      this.#widened.add(session);
      session.setLocalWindowSize(windowBytes);
    }
    return stream;
  }
}

interface Connection {
  readonly manager: Http2SessionManager;
  readonly transport: Transport;
}

export class GrpcClient {
  readonly #connections = new Map<string, Connection>();
  readonly #headers: Readonly<Record<string, string>>;

  constructor(headers: Readonly<Record<string, string>>) {
    this.#headers = headers;
  }

  async call<M extends UnaryMethod>(
    address: string,
    method: M,
    request: RequestInit<M>,
    options?: CallOptions,
  ): Promise<ResponseOf<M>> {
    try {
      const response = await this.#transport(address).unary(
        method as UnaryMethod,
        options?.signal,
        options?.timeoutMs ?? callTimeoutMsDefault,
        this.#headers,
        request as MessageInitShape<DescMessage>,
      );
      return response.message as ResponseOf<M>;
    } catch (error) {
      throw fromWire(error, address);
    }
  }

  async *watch<M extends ServerStreamMethod>(
    address: string,
    method: M,
    request: RequestInit<M>,
    options?: CallOptions,
  ): AsyncGenerator<ResponseOf<M>> {
    const requests = (async function* () {
      yield create(method.input, request as MessageInitShape<DescMessage>);
    })();
    const leaving = new AbortController();
    const leave = () => leaving.abort();
    if (options?.signal?.aborted) return;
    options?.signal?.addEventListener("abort", leave, { once: true });
    try {
      const response = await this.#transport(address).stream(
        method as ServerStreamMethod,
        leaving.signal,
        options?.timeoutMs,
        this.#headers,
        requests as AsyncIterable<MessageInitShape<DescMessage>>,
      );
      // Not `for await`: closing the inner iterator would wait for a stream that nobody reads any more.
      const messages = response.message[Symbol.asyncIterator]();
      for (let next = await messages.next(); !next.done; next = await messages.next())
        yield next.value as ResponseOf<M>;
    } catch (error) {
      if (options?.signal?.aborted) return;
      throw fromWire(error, address);
    } finally {
      options?.signal?.removeEventListener("abort", leave);
      leave();
    }
  }

  open<M extends BidiMethod>(
    address: string,
    method: M,
    options?: CallOptions,
  ): Channel<RequestInit<M>, ResponseOf<M>> {
    const outbox = new Outbox<MessageInitShape<DescMessage>>();
    const abort = new AbortController();
    const stop = () => {
      options?.signal?.removeEventListener("abort", stop);
      abort.abort();
    };
    options?.signal?.addEventListener("abort", stop);
    const response = this.#transport(address).stream(
      method as BidiMethod,
      abort.signal,
      options?.timeoutMs,
      this.#headers,
      outbox,
    );
    const broken = (error: unknown) => {
      const known = fromWire(error, address);
      outbox.break(known);
      return known;
    };
    // A stream that never opens must wake its senders even if nobody reads from it.
    response.catch(broken);
    async function* incoming(): AsyncGenerator<ResponseOf<M>> {
      try {
        for await (const message of (await response).message)
          yield message as MessageShape<M["output"]> as ResponseOf<M>;
      } catch (error) {
        if (abort.signal.aborted) return;
        throw broken(error);
      } finally {
        outbox.break(new DcnrError("unavailable", `the stream to ${address} has ended`));
        stop();
      }
    }
    return {
      send: (message) => outbox.send(message as MessageInitShape<DescMessage>),
      incoming: incoming(),
      close: () => {
        outbox.close();
        stop();
      },
    };
  }

  close(): void {
    for (const { manager } of this.#connections.values()) manager.abort();
    this.#connections.clear();
  }

  #transport(address: string): Transport {
    const known = this.#connections.get(address);
    if (known) return known.transport;
    const url = baseUrl(address);
    const manager = new WideSessionManager(
      url,
      // A peer that went silent without closing is noticed by the ping, not by TCP after minutes.
      { pingIntervalMs: 10_000, pingTimeoutMs: 5_000, idleConnectionTimeoutMs: 60_000 },
      { settings: { initialWindowSize: windowBytes, enablePush: false } },
    );
    const transport = createGrpcTransport({
      baseUrl: url,
      sessionManager: manager,
      acceptCompression: [],
      readMaxBytes: messageBytesMax,
      writeMaxBytes: messageBytesMax,
    });
    this.#connections.set(address, { manager, transport });
    return transport;
  }
}
