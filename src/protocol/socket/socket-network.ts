// The network of a process that has nothing but WebSockets: a tab of a browser. It calls orchestrators over one socket each, and all other
// machines through their relays, on lines that are sealed end to end; it is called the same way. Nothing of Node's is imported here.

import { fail } from "../../core/errors.ts";
import type { KeyId } from "../../core/ids.ts";
import { type Log, silentLog, type Timers } from "../../core/world.ts";
import { type ConnectionLimits, limitsDefault } from "../connections/connection-limits.ts";
import { GrpcClient } from "../grpc-client.ts";
import { KeyBook } from "../identity/key-book.ts";
import type { Network, Server } from "../network.ts";
import { formatAddress, keyOf, parseAddress, withoutKey } from "../routes/address.ts";
import { dialThrough, type Line } from "../routes/line.ts";
import { isRelayed, parseRoute, shownRoute } from "../routes/routes.ts";
import { type GuestLimits, guestLimitsDefault } from "../server/limits.ts";
import { Answering } from "./answering.ts";
import { Calling } from "./calling.ts";
import { type Signer, sealAnswering, sealCalling } from "./sealed-line.ts";
import { socketPath, webSocketLine } from "./web-socket-line.ts";

export interface SocketNetworkOptions {
  readonly timers: Timers;
  readonly log?: Log;
  /** The key that this process shows; without one it calls as nobody and nobody can call it. */
  readonly identity?: Signer & { readonly id: KeyId };
  readonly keys?: KeyBook;
  /** Sent with every call, for example an API key. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Whether "host:port" is spoken to encrypted; pages that came by https may do nothing else. */
  readonly secure: boolean;
  /** If given, nobody is called directly but who shows it: browsers connect to orchestrators and to no PNodes. */
  readonly networkKey?: KeyId;
  readonly limits?: Partial<ConnectionLimits>;
  readonly guestLimits?: Partial<GuestLimits>;
  /** Instead of the web's own WebSockets. */
  readonly connect?: (url: string, signal: AbortSignal) => Promise<Line>;
}

export function openSocketNetwork(options: SocketNetworkOptions): Network {
  const { timers, identity, networkKey, secure, log = silentLog, headers = {}, keys = new KeyBook() } = options;
  const connect = options.connect ?? ((url, signal) => webSocketLine(url, timers, signal));
  const sealedTo = (line: Line, key: KeyId) =>
    sealCalling(line, identity, (holder) => keys.follows(key, holder.keys)).catch((error: unknown) => {
      line.close();
      throw error;
    });
  const calling = new Calling({
    timers,
    limits: { ...limitsDefault, ...options.limits },
    connect: async (address, signal) => {
      const key = keyOf(address);
      if (isRelayed(address)) {
        const route = parseRoute(withoutKey(address));
        if (route.kind !== "relayed" || key === undefined)
          fail("failed_precondition", `${shownRoute(address)}: only who knows the key that answers may call there`);
        return sealedTo(dialThrough(client, route, { signal }), key);
      }
      if (networkKey !== undefined && key !== networkKey)
        fail("unavailable", `${withoutKey(address)} is no orchestrator: a browser reaches others by relays alone`);
      const line = await connect(urlOf(address, secure), signal);
      return key === undefined ? line : sealedTo(line, key);
    },
  });
  const client: GrpcClient = new GrpcClient(
    (address, method, given, signal) => calling.openStream(address, method, given, signal),
    headers,
    timers,
  );
  const limits = { ...guestLimitsDefault, ...options.guestLimits };
  return {
    id: identity?.id,
    keys,
    call: (address, method, request, callOptions) => client.call(address, method, request, callOptions),
    watch: (address, method, request, callOptions) => client.watch(address, method, request, callOptions),
    open: (address, method, callOptions) => client.open(address, method, callOptions),
    serve: async (address, services, _http, gate): Promise<Server> => {
      const answering = new Answering(services, { timers, limits, log, gate });
      return {
        address,
        accept: (line, from) => void answerSealed(answering, identity, line, from, log),
        close: async () => answering.close(),
      };
    },
    close: async () => calling.close(),
  };
}

async function answerSealed(
  answering: Answering,
  identity: Signer | undefined,
  line: Line,
  address: string,
  log: Log,
): Promise<void> {
  try {
    const { line: opened, caller } = await sealAnswering(
      line,
      identity ?? fail("failed_precondition", "this process has no key, so nobody can call it"),
    );
    const former = caller && caller.keys.length > 1 && { keys: caller.keys };
    answering.serve(opened, { address, ...(caller && { id: caller.id }), ...former });
  } catch (error) {
    log("debug", `a call from ${address} came to nothing: ${String(error)}`);
    line.close();
  }
}

/** Where the WebSocket of an address is. */
function urlOf(address: string, secureDefault: boolean): string {
  const { host, port, secure, socket } = parseAddress(withoutKey(address));
  const scheme = (socket ? secure : secureDefault || secure) ? "wss" : "ws";
  return `${scheme}://${formatAddress(host, port)}${socketPath}`;
}
