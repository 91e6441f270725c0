// How a gate connects to others for the PNode behind it: by all kinds of routes, with the machine's key, to nothing that its owner did not
// name. Each connection is handed over once the other end has proved its key.

import { connect as connectTcp, isIP } from "node:net";
import type { Duplex } from "node:stream";
import { connect as connectTls } from "node:tls";
import { DcnrError, fail } from "../../core/errors.ts";
import type { KeyId } from "../../core/ids.ts";
import type { TlsIdentity } from "../../core/keys.ts";
import type { Timers } from "../../core/world.ts";
import { socketTo } from "../connections/connection.ts";
import { limitsDefault } from "../connections/connection-limits.ts";
import { Connections } from "../connections/connections.ts";
import { within } from "../connections/deadline.ts";
import { GrpcClient } from "../grpc-client.ts";
import type { KeyBook } from "../identity/key-book.ts";
import { holderAt, Tls } from "../identity/tls.ts";
import { formatAddress, keyOf, parseAddress } from "../routes/address.ts";
import { dialThrough, type Line } from "../routes/line.ts";
import { Punching } from "../routes/punching.ts";
import type { Reach } from "../routes/reach.ts";
import { isPunched, isRelayed, type RelayedRoute, shownRoute } from "../routes/routes.ts";
import { Calling } from "../socket/calling.ts";
import { isBySocket, socketLines } from "../socket/socket-lines.ts";
import { openStream } from "../streams/client-stream.ts";
import { brokenBy } from "../streams/wire-errors.ts";

export interface GateDialingOptions {
  readonly timers: Timers;
  readonly identity: TlsIdentity;
  readonly keys: KeyBook;
  readonly reach: Reach;
  /** Over WebSockets alone. */
  readonly web: boolean;
}

export interface Proved {
  readonly socket: Duplex;
  /** All keys of whoever answers. */
  readonly keys?: readonly KeyId[];
}

export interface WebPlace {
  readonly host: string;
  readonly port: number;
  readonly tls: boolean;
  readonly key?: KeyId | undefined;
}

/**
 * Where servers of the web are. Below are mail, shells and shared files, which whoever takes the PNode's process over would speak to in the owner's
 * name: no key tells who answers here before something is said to them, and without TLS every byte may be the PNode's.
 */
function checkWebPort({ host, port }: Pick<WebPlace, "host" | "port">): void {
  if (port !== 80 && port !== 443 && port < 1_024)
    fail("permission_denied", `${formatAddress(host, port)} is no place for a server of the web: it is not called`);
}

/** A way through routers that nobody takes is given up. */
const adoptedMs = 10_000;

export class GateDialing {
  readonly tls: Tls;
  readonly punching: Punching;
  readonly #options: GateDialingOptions;
  /** Shows no key. */
  readonly #nobody: Tls;
  readonly #client: GrpcClient;
  readonly #connections: Connections;
  readonly #calling: Calling;
  /** Ways through routers that were made and not taken yet. */
  readonly #made = new Map<string, Promise<Proved>>();

  constructor(options: GateDialingOptions) {
    const { timers, reach, web, identity, keys } = options;
    const limits = limitsDefault;
    this.#options = options;
    this.tls = new Tls(identity, undefined, keys);
    this.#nobody = new Tls(undefined, undefined, keys);
    this.#connections = new Connections({
      ...{ timers, limits, reach, tls: this.tls },
      through: (route) => this.#through(route),
    });
    this.#calling = new Calling({
      ...{ timers, limits },
      connect: (address, signal) => this.line(address, signal),
    });
    this.#client = new GrpcClient(
      (address, method, given, signal) =>
        isBySocket(address, web)
          ? this.#calling.openStream(address, method, given, signal)
          : openStream(this.#connections, address, method, given, signal),
      {},
      timers,
    );
    this.punching = new Punching({
      ...{ timers, reach, tls: this.tls, connection: { timers, limits } },
      connections: {
        stands: (address) => this.#made.has(address),
        adopt: (address, socket) => this.#adopt(address, socket),
      },
      network: () => this.#client,
    });
  }

  /** For calls of the gate's own: to relays, and to whoever introduces. */
  get client(): GrpcClient {
    return this.#client;
  }

  /** Bytes to whoever holds the address' key. */
  async dial(address: string, nobody = false): Promise<Proved> {
    const { reach } = this.#options;
    if (keyOf(address) === undefined)
      fail("permission_denied", `${shownRoute(address)} names no key: a PNode calls nobody whom it cannot tell`);
    if (isPunched(address)) {
      const made = this.#made.get(address) ?? fail("unavailable", `the way to ${shownRoute(address)} is gone`);
      this.#made.delete(address);
      return made;
    }
    const tls = nobody ? this.#nobody : this.tls;
    const through = (route: RelayedRoute) => this.#through(route);
    const { timers } = this.#options;
    const opened = socketTo(address, { timers, limits: limitsDefault, tls, reach, through });
    if (opened === undefined) fail("permission_denied", `${shownRoute(address)} cannot be dialled`);
    return this.#proved(() => opened.createConnection(), address);
  }

  /** Whole messages to whoever holds the address' key. */
  async line(address: string, signal: AbortSignal, nobody = false): Promise<Line> {
    const { reach } = this.#options;
    if (keyOf(address) === undefined)
      fail("permission_denied", `${shownRoute(address)} names no key: a PNode calls nobody whom it cannot tell`);
    if (!isRelayed(address)) checkWebPort(parseAddress(address));
    const through = (route: RelayedRoute, given: AbortSignal) => this.#through(route, given);
    return socketLines({ through, tls: nobody ? this.#nobody : this.tls, reach })(address, signal);
  }

  /** To a server of blobs, which is proved by its key or by a certificate of the web. Nobody's key is shown to it. */
  async web({ host, port, tls, key }: WebPlace): Promise<Proved> {
    const { reach } = this.#options;
    const { lookup } = reach;
    const where = formatAddress(host, port);
    reach.check(host);
    if (key !== undefined) return this.#proved(() => this.#nobody.dial({ host, port, key }, lookup), where);
    checkWebPort({ host, port });
    const name = isIP(host.replace(/^\[|\]$/g, "")) === 0 ? { servername: host } : {};
    return this.#proved(
      () => (tls ? connectTls({ host, port, lookup, ...name }) : connectTcp({ host, port, lookup }).setNoDelay(true)),
      where,
    );
  }

  close(): void {
    this.#calling.close();
    this.#connections.close();
    for (const made of this.#made.values()) made.then(({ socket }) => socket.destroy()).catch(() => {});
  }

  #through(route: RelayedRoute, signal?: AbortSignal): Line {
    return dialThrough(this.#client, route, signal && { signal });
  }

  #adopt(address: string, socket: Duplex): void {
    const made = this.#proved(() => socket, address);
    // Whoever takes it hears of it.
    made.catch(() => {});
    this.#made.set(address, made);
    const forget = () => this.#made.get(address) === made && this.#made.delete(address);
    const late = within(this.#options.timers, adoptedMs, () => forget() && socket.destroy());
    socket.once("close", () => {
      late();
      forget();
    });
  }

  /** Within the time that a connection may take. Nothing is opened for an address that is none: nobody would hear how that ends. */
  #proved(open: () => Duplex, address: string): Promise<Proved> {
    const where = shownRoute(address);
    const socket = open();
    const { connectMs } = limitsDefault;
    return new Promise((resolve, reject) => {
      const late = within(this.#options.timers, connectMs, () =>
        socket.destroy(new DcnrError("unavailable", `${where} cannot be connected to (waited ${connectMs} ms)`)),
      );
      const failed = (error: Error) => settle(() => reject(brokenBy(error, where)));
      const closed = () => settle(() => reject(new DcnrError("unavailable", `${where} closed the connection`)));
      const ready = () => settle(() => resolve({ socket, ...keysAt(socket) }));
      const settle = (then: () => void) => {
        late();
        socket.off("error", failed);
        socket.off("close", closed);
        // Whoever takes it listens; until then nothing may end the process.
        socket.on("error", () => socket.destroy());
        then();
      };
      socket.on("error", failed);
      socket.on("close", closed);
      socket.once("getPeerX509Certificate" in socket ? "secureConnect" : "connect", ready);
    });
  }
}

function keysAt(socket: Duplex): { readonly keys?: readonly KeyId[] } {
  const holder = holderAt(socket);
  return holder === undefined ? {} : { keys: holder.keys };
}
