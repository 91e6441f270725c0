// One port per process: gRPC, gRPC-Web, Connect-JSON and plain HTTP, over HTTP/2 and HTTP/1.1 alike.
// The first bytes of a connection tell which of the two it speaks.

import { createServer as createHttp1Server, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createHttp2Server, type Http2ServerRequest, type Http2ServerResponse } from "node:http2";
import { type AddressInfo, createServer as createNetServer } from "node:net";
import type { Duplex } from "node:stream";
import type { DescMessage, DescMethod, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import {
  type ConnectError,
  createContextKey,
  createContextValues,
  type HandlerContext,
  type ServiceImpl,
} from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { DcnrError, fail } from "../../core/errors.ts";
import type { Log, Timers } from "../../core/world.ts";
import { AccessRules } from "../identity/access.ts";
import { admitAs, callerOf, plainAddress } from "../identity/caller.ts";
import type { Tls } from "../identity/tls.ts";
import type { CallContext, Caller, Channel, Gate, HttpHandler, ServedService, Server } from "../network.ts";
import { messageBytesMax, windowBytes } from "../network.ts";
import { formatAddress, isLoopback, parseAddress } from "../routes/address.ts";
import type { Line } from "../routes/line.ts";
import { LineSocket } from "../routes/line-socket.ts";
import { Answering } from "../socket/answering.ts";
import { SocketServer, turnAway } from "../socket/socket-server.ts";
import { Outbox } from "../streams/outbox.ts";
import { routeOf, serveStream, streamRoutes } from "../streams/server-stream.ts";
import { admit } from "./admission.ts";
import { boundBody, boundUnread, letGo } from "./bodies.ts";
import { fromConnect, toConnect } from "./connect-errors.ts";
import { Desk, tooMuch, type Visit } from "./desk.ts";
import { type Guest, Guests, type Tables } from "./guests.ts";
import { answerHttp, type NodeServerRequest, type NodeServerResponse } from "./http.ts";
import type { GuestLimits } from "./limits.ts";
import { refuse } from "./refusal.ts";

type AnyChannel = Channel<MessageInitShape<DescMessage>, MessageShape<DescMessage>>;

const callerKey = createContextKey<Caller>({ address: "unknown" }, { description: "who calls" });

export interface ServeOptions {
  readonly http: HttpHandler | undefined;
  readonly gate: Gate | undefined;
  readonly log: Log;
  readonly allowedHosts: readonly string[];
  readonly allowsPage: (origin: string, path: string) => boolean;
  readonly timers: Timers;
  readonly limits: GuestLimits;
  /** Absent: nothing is encrypted. */
  readonly tls: Tls | undefined;
  /** False: only callers on this machine may speak in plain text. */
  readonly plainFromAnywhere: boolean;
  /** Absent: it listens itself. */
  readonly handed?: Handing;
}

/** Where connections come from that somebody else of this machine has let in (gate/gate.ts). */
export interface Handed {
  connection(socket: Guest): void;
  line(line: Line, caller: Caller, proved: () => void): void;
}

/** Instead of listening. */
export type Handing = (handed: Handed) => Promise<{
  readonly address: string;
  readonly accept: Server["accept"];
  readonly proved: (socket: Guest) => void;
  close(): void;
}>;

/** One that takes sockets, too, which were made by other means than listening. */
export interface GrpcServer extends Server {
  welcome(socket: Guest): void;
}

export async function serveGrpc(
  address: string,
  services: readonly ServedService[],
  { http, gate, log, allowedHosts, allowsPage, timers, limits, tls, plainFromAnywhere, handed }: ServeOptions,
): Promise<GrpcServer> {
  let outer: Awaited<ReturnType<Handing>> | undefined;
  const guests = new Guests(timers, limits, (socket) => outer?.proved(socket));
  const desk = new Desk(timers, limits);
  const bound = parseAddress(address);
  const handle = connectNodeAdapter({
    routes: (router) => {
      for (const { descriptor, handlers } of services)
        router.service(descriptor, implementation(descriptor.methods, handlers, log) as ServiceImpl<typeof descriptor>);
    },
    acceptCompression: [],
    readMaxBytes: messageBytesMax,
    writeMaxBytes: messageBytesMax,
    contextValues: (request) => createContextValues().set(callerKey, callerOf(request)),
  });
  const routes = streamRoutes(services);
  const rules = new AccessRules(services, gate);
  const failed = (method: DescMethod, error: unknown) => failureOf(method, error, log);
  const onRequest = (request: NodeServerRequest, response: NodeServerResponse) => {
    if (request.httpVersionMajor === 1) guests.began(request as IncomingMessage, response as ServerResponse);
    const isLocal = isLoopback(plainAddress(request.socket?.remoteAddress ?? ""));
    const path = pathOf(request);
    const allows = (origin: string) => allowsPage(origin, path);
    const refusal = admit(request.method ?? "", request.headers, bound.host, allowedHosts, isLocal, allows);
    if (refusal) {
      (response as ServerResponse).writeHead(403, { "content-type": "text/plain" }).end(`${refusal}\n`);
      return letGo(request, timers, limits.prefaceMs);
    }
    const method = rules.methodAt(path);
    const turnAway = (error: unknown) => {
      if (response.headersSent) return;
      refuse(method ? failed(method, error) : toConnect(error), request, response);
      letGo(request, timers, limits.prefaceMs);
    };
    let visit: Visit;
    try {
      // A client of HTTP/2 hears of the limit with its first answer, and may not care.
      if (bytesOf(request.rawHeaders) > limits.headerBytesMax) throw tooMuch("the headers are too long");
      visit = desk.enter(callerOf(request), path);
    } catch (error) {
      return turnAway(error);
    }
    response.once("close", () => visit.leave());
    const route = request.httpVersionMajor === 2 ? routeOf(routes, path, request.headers) : undefined;
    // Streams of messages count what they keep, and hold their senders back.
    if (route === undefined) boundUnread(request, visit);
    const proceed = () => {
      if (route)
        return serveStream(route, request as Http2ServerRequest, response as Http2ServerResponse, visit, failed);
      if (method === undefined) {
        const patience = { visit, timers, log, stallMs: limits.answerMs };
        return void answerHttp(http, request, response, patience).then(() => letGo(request, timers, limits.prefaceMs));
      }
      boundBody(request, visit, timers, limits.callMs, turnAway);
      try {
        handle(request, response);
      } catch (cause) {
        // At once it throws only for requests without a host, which old probes may leave out; nobody else would catch it.
        turnAway(new DcnrError("invalid_argument", "refused: the request names no host", { cause }));
      }
    };
    if (gate === undefined || method === undefined) return proceed();
    // Judged by who calls, before anything of the body is read.
    rules.admit(method, callerOf(request), request.headers.authorization).then((caller) => {
      admitAs(request, caller);
      visit.countFor(caller.id);
      visit.countFor(caller.roles?.key);
      proceed();
    }, turnAway);
  };
  const { headerBytesMax, headerCountMax, streamsPerConnection } = limits;
  const http1 = createHttp1Server({ maxHeaderSize: headerBytesMax }, onRequest);
  http1.maxHeadersCount = headerCountMax;
  const settings = {
    initialWindowSize: windowBytes,
    maxConcurrentStreams: streamsPerConnection,
    maxHeaderListSize: headerBytesMax,
  };
  const http2 = createHttp2Server({ settings, maxHeaderListPairs: headerCountMax }, onRequest);
  http2.on("session", (session) => {
    session.setLocalWindowSize(windowBytes);
    guests.watch(session);
  });
  // Errors of one connection end that connection; without a listener they would end the process.
  http2.on("sessionError", (error) => log("debug", `connection failed: ${String(error)}`));
  const tables: Tables = {
    http1: (speaks) => http1.emit("connection", speaks),
    http2: (speaks) => http2.emit("connection", speaks),
    tls: tls && ((greets) => tls.accept(greets)),
    sealed: tls && ((socket, proved) => sockets.sealed(socket, plainAddress(socket.remoteAddress ?? ""), proved)),
    plain: ({ remoteAddress }) => plainFromAnywhere || isLoopback(plainAddress(remoteAddress ?? "")),
  };
  const answering = new Answering(services, { timers, limits, log, gate, desk });
  const sockets = new SocketServer({ answering, timers, limits, log, signer: () => tls?.signer });
  http1.on("upgrade", (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    const proved = guests.upgraded(socket);
    const { remoteAddress = "" } = request.socket;
    // Pages of others may open sockets, too, and their browsers would show what they know of this server.
    const refusal = admit("POST", request.headers, bound.host, allowedHosts, isLoopback(plainAddress(remoteAddress)));
    if (refusal) return turnAway(socket, { status: "403 Forbidden", why: refusal });
    sockets.upgrade(request, socket, head, callerOf(request), proved);
  });
  const elsewhere = await handed?.({
    connection: (socket) => guests.welcome(socket, tables),
    line: (line, caller, proved) => answering.serve(line, caller, proved),
  });
  if (elsewhere !== undefined) {
    outer = elsewhere;
    return {
      address: elsewhere.address,
      welcome: (socket) => guests.welcome(socket, tables),
      accept: (line, from) => elsewhere.accept(line, from),
      close: async () => {
        elsewhere.close();
        answering.close();
        guests.leave();
      },
    };
  }
  // Nothing is read before it is known whose it is.
  const listener = createNetServer({ pauseOnConnect: true }, (socket) => guests.welcome(socket, tables));
  await listen(listener, bound.host, bound.port);
  const { port } = listener.address() as AddressInfo;
  return {
    address: formatAddress(bound.host, port),
    welcome: (socket) => guests.welcome(socket, { ...tables, plain: () => false }),
    // Whoever carries it must not be able to read it.
    accept: (line, from) => guests.welcome(new LineSocket(line, from), { ...tables, plain: () => false }),
    close: () =>
      new Promise((resolve) => {
        listener.close(() => resolve());
        answering.close();
        guests.leave();
      }),
  };
}

function pathOf({ url = "" }: NodeServerRequest): string {
  return url.split("?", 1)[0] as string;
}

function bytesOf(texts: readonly string[]): number {
  return texts.reduce((sum, text) => sum + text.length, 0);
}

export function listen(listener: ReturnType<typeof createNetServer>, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    listener.once("error", (error: NodeJS.ErrnoException) => {
      const where = formatAddress(host, port);
      if (error.code === "EADDRINUSE")
        reject(
          new DcnrError(
            "failed_precondition",
            `port ${port} on ${host} is in use: choose another, or stop what listens there`,
          ),
        );
      else if (error.code === "EACCES")
        reject(new DcnrError("permission_denied", `may not listen on ${where}: choose a port above 1023`));
      else if (error.code === "EADDRNOTAVAIL" || error.code === "ENOTFOUND")
        reject(
          new DcnrError(
            "invalid_argument",
            `${host} is not an address of this machine: listen on 127.0.0.1, or on 0.0.0.0 for all it has`,
          ),
        );
      else reject(new DcnrError("unavailable", `cannot listen on ${where}: ${error.message}`));
    });
    listener.listen(port, host, () => resolve());
  });
}

function implementation(methods: readonly DescMethod[], handlers: Record<string, unknown>, log: Log) {
  const entries = methods.map((method) => {
    const handler = handlers[method.localName];
    if (handler === undefined) fail("internal", `no handler for ${method.parent.typeName}/${method.name}`);
    return [method.localName, adapt(method, handler, log)] as const;
  });
  return Object.fromEntries(entries);
}

/** What the caller may know; the log gets the rest. */
function failureOf(method: DescMethod, error: unknown, log: Log): ConnectError {
  if (!(error instanceof DcnrError)) log("error", `${method.parent.name}/${method.name} failed: ${describe(error)}`);
  return toConnect(error);
}

function adapt(method: DescMethod, handler: unknown, log: Log): unknown {
  const failed = (error: unknown) => failureOf(method, error, log);
  switch (method.methodKind) {
    case "unary":
      return async (request: MessageShape<DescMessage>, context: HandlerContext) => {
        try {
          return await (handler as (r: unknown, c: CallContext) => Promise<unknown>)(request, callContext(context));
        } catch (error) {
          throw failed(error);
        }
      };
    case "server_streaming":
      return async function* (request: MessageShape<DescMessage>, context: HandlerContext) {
        try {
          yield* (handler as (r: unknown, c: CallContext) => AsyncIterable<unknown>)(request, callContext(context));
        } catch (error) {
          throw failed(error);
        }
      };
    case "bidi_streaming":
      return (requests: AsyncIterable<MessageShape<DescMessage>>, context: HandlerContext) =>
        serveBidi(requests, callContext(context), handler as (c: AnyChannel, x: CallContext) => Promise<void>, failed);
    case "client_streaming":
      return fail("internal", "client streaming is not used: it works in no browser");
  }
}

async function* serveBidi(
  requests: AsyncIterable<MessageShape<DescMessage>>,
  context: CallContext,
  handler: (channel: AnyChannel, context: CallContext) => Promise<void>,
  failed: (error: unknown) => Error,
): AsyncGenerator<MessageInitShape<DescMessage>> {
  const outbox = new Outbox<MessageInitShape<DescMessage>>();
  const stop = () => outbox.break(new DcnrError("unavailable", "the caller went away"));
  context.signal.addEventListener("abort", stop, { once: true });
  async function* incoming() {
    try {
      yield* requests;
    } catch (error) {
      throw fromConnect(error, context.caller.address);
    }
  }
  const channel: AnyChannel = {
    send: (message) => outbox.send(message),
    incoming: incoming(),
    close: () => outbox.close(),
  };
  let failure: Error | undefined;
  const served = handler(channel, context)
    .catch((error: unknown) => {
      failure = failed(error);
    })
    .finally(() => outbox.close());
  yield* outbox;
  await served;
  context.signal.removeEventListener("abort", stop);
  if (failure && !context.signal.aborted) throw failure;
}

function callContext(context: HandlerContext): CallContext {
  return {
    signal: context.signal,
    caller: context.values.get(callerKey),
    header: (name) => context.requestHeader.get(name) ?? undefined,
  };
}

function describe(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
