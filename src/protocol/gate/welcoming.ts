// The side of a gate that others call: it listens where the owner said, tells by the first bytes what they speak, proves their keys, and
// gives the PNode what is inside. Limits on connections are those of every server.

import { createServer as createHttp1Server, type IncomingMessage } from "node:http";
import { type AddressInfo, createServer, type Server as NetServer } from "node:net";
import type { Duplex } from "node:stream";
import { fail } from "../../core/errors.ts";
import type { Log, Timers } from "../../core/world.ts";
import { callerAt, plainAddress } from "../identity/caller.ts";
import type { Tls } from "../identity/tls.ts";
import type { Caller } from "../network.ts";
import { formatAddress, isLoopback, parseAddress } from "../routes/address.ts";
import { admit } from "../server/admission.ts";
import { listen } from "../server/grpc-server.ts";
import { type Guest, Guests, type Tables } from "../server/guests.ts";
import type { GuestLimits } from "../server/limits.ts";
import { SocketServer, turnAway } from "../socket/socket-server.ts";
import { socketPath } from "../socket/web-socket-line.ts";
import { splice, spliceLine } from "./splice.ts";

/** Somebody who is to be handed over. */
export interface Given {
  readonly as: "connection" | "line" | "page";
  readonly caller: Caller;
  /** The PNode is here for it. */
  readonly take: (socket: Duplex) => void;
  /** The PNode did not come. */
  readonly leave: () => void;
  /** To be called when somebody was let in to ask. */
  readonly proved?: () => void;
  /** Its end, where that is known. */
  readonly ends?: Duplex;
}

export interface WelcomingOptions {
  readonly timers: Timers;
  readonly limits: GuestLimits;
  readonly log: Log;
  readonly tls: Tls;
  readonly give: (given: Given) => void;
}

/** Owners have one browser or two. */
const pagesMax = 16;

export class Welcoming {
  readonly #options: WelcomingOptions;
  readonly #guests: Guests;
  readonly #tables: Tables;
  readonly #listeners: NetServer[] = [];
  #host = "";
  #isServing = false;

  constructor(options: WelcomingOptions) {
    const { timers, limits, log, tls, give } = options;
    this.#options = options;
    this.#guests = new Guests(timers, limits);
    const sockets = new SocketServer({
      ...{ timers, limits, log, signer: () => tls.signer },
      answering: {
        serve: (line, caller, proved = () => {}) =>
          give({
            ...{ as: "line", caller, proved, leave: () => line.close() },
            take: (socket) => void spliceLine(line, socket),
          }),
      },
    });
    // For WebSockets alone, whose lines may be sealed with this machine's key.
    const web = createHttp1Server({ maxHeaderSize: limits.headerBytesMax }, (_, response) =>
      response.writeHead(404, { connection: "close" }).end(),
    );
    web.on("upgrade", (request: IncomingMessage, socket: Duplex, head: Buffer) => {
      const proved = this.#guests.upgraded(socket);
      const isLocal = isLoopback(plainAddress(request.socket.remoteAddress ?? ""));
      // Pages of others may open sockets, too.
      const refusal = admit("POST", request.headers, this.#host, [], isLocal);
      if (refusal) return turnAway(socket, { status: "403 Forbidden", why: refusal });
      sockets.upgrade(request, socket, head, callerAt(request.socket), proved);
    });
    this.#tables = {
      http1: (socket) => (asksForSocket(socket) ? web.emit("connection", socket) : this.#hand(socket)),
      http2: (socket) => this.#hand(socket),
      tls: (socket) => tls.accept(socket),
      sealed: (socket, proved) => sockets.sealed(socket, plainAddress(socket.remoteAddress ?? ""), proved),
      plain: ({ remoteAddress }) => isLoopback(plainAddress(remoteAddress ?? "")),
    };
  }

  /** At one place, which the owner has named. Answers with it as bound. */
  async listen(address: string): Promise<string> {
    if (this.#isServing) fail("already_exists", "this machine is called at one place");
    this.#isServing = true;
    const { host, port } = parseAddress(address);
    this.#host = host;
    const listener = createServer({ pauseOnConnect: true }, (socket) => this.#guests.welcome(socket, this.#tables));
    await listen(listener, host, port);
    this.#listeners.push(listener);
    return formatAddress(host, (listener.address() as AddressInfo).port);
  }

  /** Somebody who came by other ways, and must prove a key or speak encrypted. */
  welcome(socket: Guest): void {
    this.#guests.welcome(socket, { ...this.#tables, plain: () => false });
  }

  /** For the owner's browser: on loopback, handed over as it is. Answers with the port. */
  async openPage(port: number): Promise<number> {
    const { give, timers } = this.#options;
    const listener = createServer({ pauseOnConnect: true }, (socket) => {
      socket.on("error", () => socket.destroy());
      give({
        ...{ as: "page", caller: callerAt(socket), ends: socket, leave: () => socket.destroy() },
        take: (taken) => splice(taken, socket, timers),
      });
    });
    listener.maxConnections = pagesMax;
    await listen(listener, "127.0.0.1", port);
    this.#listeners.push(listener);
    return (listener.address() as AddressInfo).port;
  }

  close(): void {
    for (const listener of this.#listeners) listener.close();
    this.#guests.leave();
  }

  #hand(socket: Guest): void {
    const { give, timers } = this.#options;
    give({
      ...{ as: "connection", caller: callerAt(socket), proved: this.#guests.upgraded(socket), ends: socket },
      take: (taken) => splice(taken, socket, timers),
      leave: () => socket.destroy(),
    });
  }
}

/** The beginning of a request is here. */
function asksForSocket(socket: Guest): boolean {
  const bytes = socket.read() as Buffer | null;
  if (bytes === null) return false;
  socket.unshift(bytes);
  return bytes.toString("latin1", 0, 64).startsWith(`GET ${socketPath} `);
}
