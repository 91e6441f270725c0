// The real Network: gRPC over HTTP/2, on connections of our own; over sockets to those who can be reached by nothing else.

import type { TlsIdentity } from "../core/keys.ts";
import { type Log, silentLog, type Timers } from "../core/world.ts";
import type { ConnectionOptions } from "./connections/connection.ts";
import { type ConnectionLimits, limitsDefault } from "./connections/connection-limits.ts";
import { Connections } from "./connections/connections.ts";
import { GrpcClient } from "./grpc-client.ts";
import type { KeyBook } from "./identity/key-book.ts";
import { Tls, type WebCertificate } from "./identity/tls.ts";
import type { Network } from "./network.ts";
import { dialThrough } from "./routes/line.ts";
import { Punching } from "./routes/punching.ts";
import type { Reach } from "./routes/reach.ts";
import type { RelayedRoute } from "./routes/routes.ts";
import type { GrpcServer } from "./server/grpc-server.ts";
import { type GuestLimits, guestLimitsDefault } from "./server/limits.ts";
import { Calling } from "./socket/calling.ts";
import { isBySocket, socketLines } from "./socket/socket-lines.ts";
import { openStream } from "./streams/client-stream.ts";

export interface GrpcNetworkOptions {
  /** For deadlines; they should not keep a process alive. */
  readonly timers: Timers;
  readonly log?: Log;
  /** Sent with every call, for example an API key. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Host names besides the bound address under which this process is known. */
  readonly allowedHosts?: readonly string[];
  /** Whether a page of another site may ask a path; none may if absent. */
  readonly allowsPage?: (origin: string, path: string) => boolean;
  readonly limits?: Partial<ConnectionLimits>;
  readonly guestLimits?: Partial<GuestLimits>;
  readonly dial?: ConnectionOptions["dial"];
  /** What this process may connect to; everything if absent. */
  readonly reach?: Reach;
  /** The key that this process shows to others; without one it calls as nobody and answers in plain text only. */
  readonly identity?: TlsIdentity;
  /** What is known of keys that have succeeded others; empty if absent. */
  readonly keys?: KeyBook;
  /** Shown to browsers instead of the key. */
  readonly webCertificate?: WebCertificate;
  /** Whoever is known by a key is called over WebSockets in TLS: for networks that let nothing out but the web. */
  readonly web?: boolean;
  /** Makes ways through routers together with machines that wait at relays, and lets others do so with this one. */
  readonly punches?: boolean;
  /** True behind a proxy that ends TLS; otherwise only callers on this machine may speak in plain text to one with a key. */
  readonly plainFromAnywhere?: boolean;
}

/** A network whose key can be replaced while it is open. */
export interface GrpcNetwork extends Network {
  readonly keys: KeyBook;
  become(identity: TlsIdentity): void;
}

export function openGrpcNetwork(options: GrpcNetworkOptions): GrpcNetwork {
  const { timers, dial, reach, log = silentLog, headers = {}, allowedHosts = [], allowsPage = () => false } = options;
  const tls = new Tls(options.identity, options.webCertificate, options.keys);
  const through = (route: RelayedRoute) => dialThrough(client, route);
  const limits = { ...limitsDefault, ...options.limits };
  const connections = new Connections({ timers, dial, tls, reach, through, limits });
  const calling = new Calling({
    ...{ timers, limits },
    connect: socketLines({ through: (route, signal) => dialThrough(client, route, { signal }), tls, reach }),
  });
  const client: GrpcClient = new GrpcClient(
    (address, method, given, signal) =>
      isBySocket(address, options.web)
        ? calling.openStream(address, method, given, signal)
        : openStream(connections, address, method, given, signal),
    headers,
    timers,
  );
  const punching =
    options.punches && tls.id !== undefined
      ? new Punching({
          ...{ timers, tls, reach, connections, connection: { timers, limits } },
          network: () => client,
        })
      : undefined;
  const guestLimits = { ...guestLimitsDefault, ...options.guestLimits };
  return {
    id: tls.id,
    keys: tls.keys,
    get key() {
      return tls.key;
    },
    become: (identity) => tls.become(identity),
    call: (address, method, request, callOptions) => client.call(address, method, request, callOptions),
    watch: (address, method, request, callOptions) => client.watch(address, method, request, callOptions),
    open: (address, method, callOptions) => client.open(address, method, callOptions),
    ...(punching && { punches: punching }),
    serve: async (address, services, http, gate) => {
      // With all of Connect, which whoever only calls others does without: a third of what most commands would load.
      const { serveGrpc } = await import("./server/grpc-server.ts");
      const punched = punching?.service((socket) => server.welcome(socket));
      const server: GrpcServer = await serveGrpc(address, [...services, ...(punched ? [punched] : [])], {
        ...{ http, gate, log, allowedHosts, allowsPage, timers, tls: tls.id && tls },
        limits: guestLimits,
        plainFromAnywhere: options.plainFromAnywhere ?? tls.id === undefined,
      });
      return server;
    },
    close: async () => {
      calling.close();
      connections.close();
    },
  };
}
