// Calls and streams to other processes with gRPC over HTTP/2: one connection per address, kept and
// reopened by Connect's session manager, with flow-control windows large enough for tensors.

import type { ClientHttp2Session, ClientHttp2Stream } from "node:http2";
import type { DescMessage, DescMethod, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import type { Transport } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { baseUrl } from "./address.ts";
import { type ClientStream, openStream } from "./client-stream.ts";
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
      // Connect stops listening when a new connection takes over, which may be before the old one has told its error:
      // an event that nobody listens to would end the process. The streams have failed with it already.
      session.on("error", () => {});
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
      const response = await this.#connection(address).transport.unary(
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
    const call = this.#open(address, method, options);
    try {
      await call.pipe.send(request as MessageInitShape<DescMessage>);
      call.finish();
      for await (const message of call.pipe) yield message as ResponseOf<M>;
    } catch (error) {
      if (options?.signal?.aborted) return;
      throw fromWire(error, address);
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
      send: (message) => pipe.send(message as MessageInitShape<DescMessage>),
      incoming: pipe as AsyncIterable<MessageShape<DescMessage>> as AsyncIterable<ResponseOf<M>>,
      close: cancel,
    };
  }

  #open(address: string, method: DescMethod, options: CallOptions | undefined): ClientStream {
    return openStream(this.#connection(address).manager, address, method, this.#headers, options?.signal);
  }

  close(): void {
    for (const { manager } of this.#connections.values()) manager.abort();
    this.#connections.clear();
  }

  #connection(address: string): Connection {
    const known = this.#connections.get(address);
    if (known) return known;
    const url = baseUrl(address);
    const manager = new WideSessionManager(
      url,
      // A peer that went silent without closing is noticed by the ping, not by TCP after minutes.
      { pingIntervalMs: 5_000, pingTimeoutMs: 5_000, idleConnectionTimeoutMs: 60_000 },
      { settings: { initialWindowSize: windowBytes, enablePush: false } },
    );
    const transport = createGrpcTransport({
      baseUrl: url,
      sessionManager: manager,
      acceptCompression: [],
      readMaxBytes: messageBytesMax,
      writeMaxBytes: messageBytesMax,
    });
    const connection = { manager, transport };
    this.#connections.set(address, connection);
    return connection;
  }
}
