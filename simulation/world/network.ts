// The `Network` of production code, in memory and with faults. Messages cross it as bytes, so that no two
// hosts can share an object and whatever does not fit the wire contract shows at once.

import { create, type DescMethod, fromBinary, type Message, toBinary } from "@bufbuild/protobuf";
import { DcnrError } from "../../src/core/errors.ts";
import type { KeyId } from "../../src/core/ids.ts";
import { ExchangeService } from "../../src/protocol/gen/dcnr/v1/exchange_pb.ts";
import { RelayService } from "../../src/protocol/gen/dcnr/v1/relay_pb.ts";
import { ServingService } from "../../src/protocol/gen/dcnr/v1/serving_pb.ts";
import type { GrpcClient } from "../../src/protocol/grpc-client.ts";
import { gated } from "../../src/protocol/identity/access.ts";
import type {
  BidiMethod,
  CallContext,
  Caller,
  CallOptions,
  Channel,
  Gate,
  HttpHandler,
  Network,
  RequestInit,
  RequestOf,
  ResponseOf,
  ServedService,
  Server,
  ServerStreamMethod,
  UnaryMethod,
} from "../../src/protocol/network.ts";
import { messageBytesMax, uncounted } from "../../src/protocol/network.ts";
import { withKey, withoutKey } from "../../src/protocol/routes/address.ts";
import { isRelayed } from "../../src/protocol/routes/routes.ts";
import { acrossTheWire, type CallingEnd, exchange, isExpected, refusal } from "./call.ts";
import { channelOf, incomingOf } from "./channels.ts";
import { answerOnLine, callsByRelay } from "./lines.ts";
import { SimulatedStream, type StreamEnd } from "./stream.ts";
import type { Wire } from "./wire.ts";
import type { Host } from "./world.ts";

export interface Listener {
  readonly host: Host;
  /** What it shows to those who call it. */
  readonly key: KeyId | undefined;
  readonly handlers: Map<string, (...args: never[]) => unknown>;
  readonly http: HttpHandler | undefined;
}

/** Streams whose ends notice by themselves that nothing comes any more. */
const hanging: ReadonlySet<DescMethod> = new Set([
  ExchangeService.method.exchange,
  RelayService.method.dial,
  RelayService.method.answer,
  ServingService.method.generateTokens,
]);

export interface FabricOptions {
  /** What one direction of a stream takes before `send` waits. */
  readonly windowBytes?: number;
}

/** All addresses, streams and open calls of one simulated world. */
export class Fabric {
  readonly wire: Wire;
  readonly windowBytes: number;
  readonly listeners = new Map<string, Listener>();
  readonly streams = new Set<SimulatedStream>();
  readonly calls = new Set<OpenCall>();
  readonly #heard = new Set<() => void>();
  /** Behind routers that let nothing in: nobody else can connect to these hosts. */
  readonly hidden = new Set<string>();
  /** Sees every call that a handler answered, for the checkers. */
  onAnswer: (answer: Answer) => void = () => {};
  /** Sees every message that is sent. */
  onSend: (message: object, method: DescMethod, side: "input" | "output") => void = () => {};
  /** For mutants: changes a message before it is sent. */
  tamper: Tamper = (message) => message;
  /** For mutants: whom a server takes a caller for. */
  mistake: Mistake = (caller) => caller;

  constructor(wire: Wire, options: FabricOptions = {}) {
    this.wire = wire;
    this.windowBytes = options.windowBytes ?? 256 << 10;
    wire.world.onCrash((host, silent) => this.#crashed(host, silent));
  }

  /**
   * Answers with what stops listening. A signal made of others is kept by Node for as long as anybody listens to it, and
   * with it the world: so whatever is still listened to when the world ends is left then.
   */
  onAbort(signal: AbortSignal, heard: () => void): () => void {
    const leave = () => {
      signal.removeEventListener("abort", heard);
      this.#heard.delete(leave);
    };
    signal.addEventListener("abort", heard, { once: true });
    this.#heard.add(leave);
    return leave;
  }

  /** Nobody calls any more: the world has ended. */
  close(): void {
    for (const leave of this.#heard) leave();
  }

  /** A message as it is sent. */
  said(method: DescMethod, side: "input" | "output", message: object): object {
    this.onSend(message, method, side);
    return this.tamper(message, method, side);
  }

  encode(method: DescMethod, side: "input" | "output", message: object): Uint8Array {
    const schema = method[side];
    const bytes = toBinary(schema, create(schema, this.said(method, side, message) as Message));
    if (bytes.byteLength > messageBytesMax)
      throw new DcnrError(
        "resource_exhausted",
        `${keyOf(method)}: a message of ${bytes.byteLength} bytes is too large`,
      );
    return bytes;
  }

  /** A host's key is called as the host, so that PNodes are, unless it shows another one. */
  network(host: Host, key = host.name as KeyId): SimulatedNetwork {
    return new SimulatedNetwork(this, host, { id: key, address: host.name });
  }

  /** As people call from an orchestrator's own machine, without a key. */
  people(host: Host): SimulatedNetwork {
    return new SimulatedNetwork(this, host, { address: "127.0.0.1" });
  }

  isHidden(host: Host, from: Host): boolean {
    return this.hidden.has(host.name) && host.name !== from.name;
  }

  /** What the others say on streams that `host` has open to them now does not get there; what it says does. */
  silence(host: string, by: readonly string[]): void {
    for (const { client, server } of this.streams)
      if (client.host.name === host && by.includes(server.host.name)) server.lane.hang();
  }

  #crashed(host: Host, silent: boolean): void {
    for (const [address, listener] of this.listeners) if (listener.host === host) this.listeners.delete(address);
    // After a silent crash peers learn only from what they fail to send.
    const withinMs = silent ? 2 * this.wire.stallMs : 2 * this.wire.delayMs;
    for (const stream of this.streams)
      if (stream.client.host === host || stream.server.host === host)
        stream.breakOff(`${host.name} went away`, { withinMs });
    for (const call of this.calls) if (call.server === host) call.breakOff(withinMs);
  }
}

export type Mistake = (caller: Caller, method: DescMethod, request: unknown) => Caller;

export type Tamper = (message: object, method: DescMethod, side: "input" | "output") => object;

export interface Answer {
  readonly method: DescMethod;
  readonly request: unknown;
  readonly response: unknown;
  readonly caller: string;
  /** Of the caller: a request may outlive the process that sent it. */
  readonly incarnation: number;
  readonly server: string;
  readonly sentMs: number;
  /** When it reached the server, which for a repeated one may be long after it was sent. */
  readonly askedMs: number;
}

/** A call that waits for its reply. */
export interface OpenCall {
  readonly server: Host;
  breakOff(withinMs: number): void;
}

export interface HttpRequest {
  readonly url: string;
  /** Of whom it is meant for, if that is known. */
  readonly key?: KeyId | undefined;
  readonly method: "PUT" | "GET";
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Uint8Array | undefined;
}

export interface HttpReply {
  readonly ok: boolean;
  readonly body: Uint8Array<ArrayBuffer>;
  readonly status: number;
}

export class SimulatedNetwork implements Network {
  readonly #fabric: Fabric;
  readonly #host: Host;
  readonly #caller: Caller;
  /** Calls by relays, from the first one on. */
  #relayed: GrpcClient | undefined;

  constructor(fabric: Fabric, host: Host, caller: Caller) {
    this.#fabric = fabric;
    this.#host = host;
    this.#caller = caller;
  }

  get #end(): CallingEnd {
    return { fabric: this.#fabric, host: this.#host, caller: this.#caller };
  }

  get #byRelay(): GrpcClient {
    this.#relayed ??= callsByRelay(this.#host, this.id, this);
    return this.#relayed;
  }

  #said<M extends DescMethod>(method: M, request: object): RequestInit<M & UnaryMethod> {
    return this.#fabric.said(method, "input", request) as RequestInit<M & UnaryMethod>;
  }

  get id(): KeyId | undefined {
    return this.#caller.id;
  }

  call<M extends UnaryMethod>(
    address: string,
    method: M,
    request: RequestInit<M>,
    options: CallOptions = {},
  ): Promise<ResponseOf<M>> {
    if (isRelayed(address)) return this.#byRelay.call(address, method, this.#said(method, request), options);
    const bytes = this.#fabric.encode(method, "input", request);
    const sentMs = this.#fabric.wire.world.time.nowMs;
    return exchange(this.#end, address, method.name, options, async (listener, context) => {
      const handler = handlerOf(listener, method) as (request: RequestOf<M>, context: CallContext) => Promise<object>;
      const askedMs = this.#fabric.wire.world.time.nowMs;
      const decoded = fromBinary(method.input, bytes) as RequestOf<M>;
      const taken = this.#fabric.mistake(context.caller, method, decoded);
      const response = await handler(decoded, { ...context, caller: taken });
      const { name: caller, incarnation } = this.#host;
      const server = listener.host.name;
      this.#fabric.onAnswer({ method, request: decoded, response, caller, incarnation, server, sentMs, askedMs });
      return this.#fabric.encode(method, "output", response);
    }).then((reply) => fromBinary(method.output, reply) as ResponseOf<M>);
  }

  /** An HTTP request to the port of a simulated server: how blobs are fetched with a grant. */
  async fetch(request: HttpRequest, options: CallOptions = {}): Promise<HttpReply> {
    const { host, pathname } = new URL(request.url);
    const { method, headers, key } = request;
    const body = request.body?.slice();
    const arrived = () => new Request(request.url, { method, headers, body: body?.byteLength ? body.slice() : null });
    const place = key === undefined ? host : withKey(host, key);
    return exchange(this.#end, place, `${method} ${pathname}`, options, async (listener) => {
      const found = await listener.http?.(arrived(), this.#host.name, uncounted);
      const response = found ?? new Response(null, { status: 404 });
      return {
        ok: response.ok,
        body: new Uint8Array(await response.arrayBuffer()),
        status: response.status,
      };
    });
  }

  watch<M extends ServerStreamMethod>(
    address: string,
    method: M,
    request: RequestInit<M>,
    options: CallOptions = {},
  ): AsyncIterable<ResponseOf<M>> {
    if (isRelayed(address)) return this.#byRelay.watch(address, method, this.#said(method, request), options);
    const bytes = this.#fabric.encode(method, "input", request);
    const stream = this.#stream(address, method, options, async (end, listener, context, serving) => {
      const handler = handlerOf(listener, method) as (
        request: RequestOf<M>,
        context: CallContext,
      ) => AsyncIterable<object>;
      for await (const message of handler(fromBinary(method.input, bytes) as RequestOf<M>, context))
        await serving.send(end, this.#fabric.encode(method, "output", message));
    });
    return incomingOf(stream, stream.client, (reply) => fromBinary(method.output, reply) as ResponseOf<M>);
  }

  open<M extends BidiMethod>(
    address: string,
    method: M,
    options: CallOptions = {},
  ): Channel<RequestInit<M>, ResponseOf<M>> {
    if (isRelayed(address)) {
      const channel = this.#byRelay.open(address, method, options);
      return { ...channel, send: (message) => channel.send(this.#said(method, message)) };
    }
    const stream = this.#stream(address, method, options, async (end, listener, context, serving) => {
      const handler = handlerOf(listener, method) as (
        channel: Channel<object, unknown>,
        c: CallContext,
      ) => Promise<void>;
      const decode = (bytes: Uint8Array) => fromBinary(method.input, bytes);
      await handler(
        channelOf(serving, end, (message) => this.#fabric.encode(method, "output", message), decode),
        context,
      );
    });
    const decode = (bytes: Uint8Array) => fromBinary(method.output, bytes) as ResponseOf<M>;
    return channelOf(
      stream,
      stream.client,
      (message: RequestInit<M>) => this.#fabric.encode(method, "input", message),
      decode,
    );
  }

  async serve(address: string, served: readonly ServedService[], http?: HttpHandler, gate?: Gate): Promise<Server> {
    const { listeners } = this.#fabric;
    if (listeners.has(address)) throw new DcnrError("already_exists", `the address ${address} is in use`);
    const handlers = new Map<string, (...args: never[]) => unknown>();
    for (const { descriptor, handlers: byName } of gated(served, gate))
      for (const method of descriptor.methods) {
        const handler = byName[method.localName];
        if (typeof handler === "function") handlers.set(keyOf(method), handler as (...args: never[]) => unknown);
      }
    const listener = { host: this.#host, key: this.id, handlers, http };
    listeners.set(address, listener);
    const end = { fabric: this.#fabric, host: this.#host, id: this.id };
    return {
      address,
      accept: (line, from) => void answerOnLine(end, { services: served, gate }, line, from),
      close: async () => {
        if (listeners.get(address) === listener) listeners.delete(address);
        for (const stream of this.#fabric.streams) if (stream.server.host === this.#host) stream.close(stream.server);
      },
    };
  }

  async close(): Promise<void> {
    for (const [address, listener] of this.#fabric.listeners)
      if (listener.host === this.#host) this.#fabric.listeners.delete(address);
    for (const stream of this.#fabric.streams) {
      if (stream.client.host === this.#host) stream.close(stream.client);
      if (stream.server.host === this.#host) stream.close(stream.server);
    }
  }

  #stream(
    address: string,
    method: DescMethod,
    options: CallOptions,
    serve: (end: StreamEnd, listener: Listener, context: CallContext, stream: SimulatedStream) => Promise<void>,
  ): SimulatedStream {
    const { wire, streams, listeners, windowBytes } = this.#fabric;
    const found = listeners.get(withoutKey(address));
    const listener = found && isExpected(found, address) ? found : undefined;
    const leave = () => stream.close(stream.client);
    let deafen = () => {};
    const ended = (stream: SimulatedStream) => {
      streams.delete(stream);
      deafen();
    };
    const what = `${method.name} at ${address}`;
    const stream = new SimulatedStream(wire, this.#host, listener?.host ?? this.#host, {
      ...{ what, windowBytes, ended },
      mayHang: hanging.has(method),
    });
    if (listener === undefined) {
      stream.breakOff("nobody listens there", { withinMs: 2 * wire.delayMs, cause: refusal() });
      return stream;
    }
    streams.add(stream);
    if (this.#fabric.isHidden(listener.host, this.#host)) {
      stream.breakOff("nothing gets through", { withinMs: wire.stallMs });
      return stream;
    }
    if (options.timeoutMs !== undefined)
      this.#host.after(options.timeoutMs, () => stream.breakOff("its time was up", { withinMs: 0 }));
    if (options.signal) deafen = this.#fabric.onAbort(options.signal, leave);
    const gone = new AbortController();
    stream.server.onGone = () => gone.abort();
    const caller = this.#fabric.mistake(this.#caller, method, undefined);
    const context: CallContext = { signal: gone.signal, caller, header: () => undefined };
    stream.client.lane.push(() => {
      serve(stream.server, listener, context, stream).then(
        () => stream.close(stream.server),
        (error) => stream.close(stream.server, acrossTheWire(error)),
      );
    });
    return stream;
  }
}

function keyOf(method: DescMethod): string {
  return `${method.parent.typeName}/${method.name}`;
}

function handlerOf(listener: Listener, method: DescMethod): (...args: never[]) => unknown {
  const handler = listener.handlers.get(keyOf(method));
  if (handler === undefined) throw new DcnrError("unimplemented", `${keyOf(method)} is not served here`);
  return handler;
}
