// Direct connections between machines behind routers that let nothing in, by TCP's simultaneous open. Each end opens a connection to the relay from
// a port of its own and hears there how its router shows that port; they tell each other by way of the relay, and both connect from
// that port to what the other has told, at the same moment: each router takes what comes in for the answer to what went out. Works where
// a router shows a port alike to everybody; where it does not, nothing comes of it and the relay stays.

import { connect as connectTcp, isIP, type Socket } from "node:net";
import { fail } from "../../core/errors.ts";
import type { KeyId } from "../../core/ids.ts";
import { sleep, type Timers } from "../../core/world.ts";
import { Connection, type ConnectionOptions } from "../connections/connection.ts";
import type { Connections } from "../connections/connections.ts";
import { within } from "../connections/deadline.ts";
import { PunchService } from "../gen/dcnr/v1/punch_pb.ts";
import { RelayService } from "../gen/dcnr/v1/relay_pb.ts";
import { GrpcClient } from "../grpc-client.ts";
import type { Tls } from "../identity/tls.ts";
import { type Caller, type Network, type Punches, type ServedService, service } from "../network.ts";
import { Shares, shareOf } from "../server/shares.ts";
import { openStream } from "../streams/client-stream.ts";
import { brokenBy } from "../streams/wire-errors.ts";
import { formatAddress, keyOf, parseAddress, withKey, withoutKey } from "./address.ts";
import type { Reach } from "./reach.ts";
import { parseRoute, shownRoute, unpunched } from "./routes.ts";

export interface PunchingOptions {
  readonly timers: Timers;
  readonly tls: Tls;
  readonly reach: Reach | undefined;
  readonly connection: ConnectionOptions;
  readonly connections: Pick<Connections, "stands" | "adopt">;
  readonly network: () => Pick<Network, "call">;
}

/** From the moment when both know where to call. Routers that need longer need for ever. */
const punchMs = 3_000;
/** A router that refuses what it does not expect yet is asked again. */
const pauseMs = 100;
/** For the call by way of the relay, at whose other end a connection is made, too. */
const agreeMs = 8_000;
/** Of others, under way: each costs a connection to a relay and some attempts. */
const punchesMax = 16;
const punchesPerCaller = 2;

/** What a router shows of a port of this machine, for as long as the connection to the relay stands. */
interface Shown {
  readonly localPort: number;
  readonly place: string;
  close(): void;
}

export class Punching implements Punches {
  readonly #options: PunchingOptions;
  readonly #underWay = new Map<string, Promise<void>>();
  readonly #called = new Shares(punchesPerCaller, punchesMax);

  constructor(options: PunchingOptions) {
    this.#options = options;
  }

  stands(address: string): boolean {
    return this.#options.connections.stands(address);
  }

  punch(address: string): Promise<void> {
    if (this.stands(address)) return Promise.resolve();
    let punching = this.#underWay.get(address);
    if (punching === undefined) {
      punching = this.#punch(address).finally(() => this.#underWay.delete(address));
      this.#underWay.set(address, punching);
    }
    return punching;
  }

  async #punch(address: string): Promise<void> {
    const { tls, connections, network } = this.#options;
    const route = parseRoute(withoutKey(address));
    const key = keyOf(address);
    if (route.kind !== "relayed" || key === undefined) fail("invalid_argument", `${address} leads by no relay`);
    const relay = withKey(route.address, route.relay);
    const shown = await this.#show(relay);
    try {
      const request = { place: shown.place, relay };
      const timeout = { timeoutMs: agreeMs };
      const { place } = await network().call(unpunched(address), PunchService.method.punch, request, timeout);
      const socket = await this.#meet(place, shown.localPort);
      connections.adopt(address, tls.over(socket, shownRoute(address), key));
    } finally {
      shown.close();
    }
  }

  /** The other end of it. `welcome` takes what comes of it as any connection that others open. */
  service(welcome: (socket: Socket) => void): ServedService {
    return service(PunchService, {
      punch: async ({ place, relay }, { caller }) => {
        checkCarrier(caller, relay);
        return { place: await this.answer(place, relay, shareOf(caller.address) ?? caller.address, welcome) };
      },
    });
  }

  /** Tells how this machine is seen, and connects to `place` from there meanwhile. `share`: of whoever asks, who gets so much. */
  async answer(place: string, relay: string, share: string, welcome: (socket: Socket) => void): Promise<string> {
    const { port } = this.#shownPlace(place);
    if (port === 0 || !this.#called.take(share)) fail("resource_exhausted", "too many ways are being made");
    let shown: Shown | undefined;
    try {
      shown = await this.#show(relay);
    } catch (error) {
      this.#called.give(share);
      throw error;
    }
    const { localPort, close } = shown;
    this.#meet(place, localPort)
      .then(welcome, () => {})
      .finally(() => {
        this.#called.give(share);
        close();
      });
    return shown.place;
  }

  /** A connection to the relay from a port of which it tells how it is seen. */
  async #show(relay: string): Promise<Shown> {
    const { timers, tls, reach, connection: options } = this.#options;
    const where = parseAddress(relay);
    reach?.check(where.host);
    let localPort = 0;
    const dial = () => {
      // Bound explicitly: only such a port may be used for a second connection.
      const { host, port } = where;
      const own = { localAddress: host.includes(":") ? "::" : "0.0.0.0", ...(reach && { lookup: reach.lookup }) };
      const socket = connectTcp({ host, port, ...own }).setNoDelay(true);
      socket.once("connect", () => {
        localPort = socket.localPort ?? 0;
      });
      return tls.over(socket, formatAddress(host, port), where.key as KeyId);
    };
    if (where.key === undefined) fail("invalid_argument", "a relay is known by its key");
    const connection = new Connection(relay, { ...options, dial }, () => {});
    const client = new GrpcClient(
      (address, method, headers, signal) =>
        openStream({ open: (_, request) => connection.open(request) }, address, method, headers, signal),
      {},
      timers,
    );
    try {
      const { place } = await client.call(relay, RelayService.method.locate, {});
      return { localPort, place, close: () => connection.close() };
    } catch (error) {
      connection.close();
      throw error;
    }
  }

  /** Routers show numbers. A name would be asked anew for each attempt, and could lead elsewhere than it was judged by. */
  #shownPlace(place: string): { readonly host: string; readonly port: number } {
    const { host, port } = parseAddress(place);
    if (isIP(host) === 0) fail("invalid_argument", `${place} is no place that a router shows: it names no number`);
    this.#options.reach?.check(host);
    return { host, port };
  }

  /** Connects from a port until the other end does so, too. */
  async #meet(place: string, localPort: number): Promise<Socket> {
    const { timers } = this.#options;
    const { host, port } = this.#shownPlace(place);
    const over = new AbortController();
    const late = within(timers, punchMs, () => over.abort());
    try {
      for (;;) {
        const socket = await attempt(host, port, localPort, over.signal);
        if (socket !== undefined) return socket;
        if (over.signal.aborted) fail("unavailable", `no way leads through the routers to ${place}`);
        await sleep(timers, pauseMs, over.signal);
      }
    } finally {
      late();
    }
  }
}

/** Nobody is sent elsewhere than to the relay by which the call came. */
export function checkCarrier(caller: Caller, relay: string): void {
  if (caller.address !== `${caller.id}@${withoutKey(relay)}`)
    fail("failed_precondition", "a way is made together by the relay that carries the call, and by no other");
}

/** Undefined if it came to nothing. */
function attempt(host: string, port: number, localPort: number, signal: AbortSignal): Promise<Socket | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<Socket | undefined>();
  const localAddress = host.includes(":") ? "::" : "0.0.0.0";
  const socket = connectTcp({ host, port, localAddress, localPort }).setNoDelay(true);
  const end = () => {
    socket.destroy();
    resolve(undefined);
  };
  signal.addEventListener("abort", end, { once: true });
  const failed = (error: NodeJS.ErrnoException) => {
    if (error.code === "EADDRINUSE") reject(brokenBy(error, formatAddress(host, port)));
    else end();
  };
  socket.once("error", failed);
  socket.once("connect", () => {
    socket.off("error", failed);
    // A port that calls itself meets itself.
    if (socket.remotePort === localPort && socket.remoteAddress === socket.localAddress) return end();
    resolve(socket);
  });
  return promise.finally(() => signal.removeEventListener("abort", end));
}
