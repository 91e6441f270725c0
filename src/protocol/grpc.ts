// The real Network: gRPC by Connect over HTTP/2.

import { type Log, silentLog } from "../core/world.ts";
import { GrpcClient } from "./grpc-client.ts";
import { serveGrpc } from "./grpc-server.ts";
import type { Network } from "./network.ts";

export interface GrpcNetworkOptions {
  readonly log?: Log;
  /** Sent with every call, for example an API key. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Host names besides the bound address under which this process is known. */
  readonly allowedHosts?: readonly string[];
}

export function openGrpcNetwork(options: GrpcNetworkOptions = {}): Network {
  const client = new GrpcClient(options.headers ?? {});
  const log = options.log ?? silentLog;
  return {
    call: (address, method, request, callOptions) => client.call(address, method, request, callOptions),
    watch: (address, method, request, callOptions) => client.watch(address, method, request, callOptions),
    open: (address, method, callOptions) => client.open(address, method, callOptions),
    serve: (address, services, http) => serveGrpc(address, services, http, log, options.allowedHosts ?? []),
    close: async () => client.close(),
  };
}
