// Connections that others open to this process: what they speak is told by their first bytes, and whoever says nothing,
// stops in the middle of a request or falls silent is let go. A socket costs memory and a descriptor, and strangers
// could otherwise keep as many as they like for ever. Where there are too many, those that have asked for nothing yet go
// first, the oldest of them before the others: whoever wants something asks at once.

import type { IncomingMessage, ServerResponse } from "node:http";
import type { Http2Stream, ServerHttp2Session } from "node:http2";
import type { Duplex } from "node:stream";
import type { TLSSocket } from "node:tls";
import type { Cancel, Timers } from "../../core/world.ts";
import { within } from "../connections/deadline.ts";
import { Liveness } from "../connections/liveness.ts";
import { plainAddress } from "../identity/caller.ts";
import { handshakeByte } from "../identity/tls.ts";
import { sealByte } from "../socket/sealed-line.ts";
import { Door } from "./door.ts";
import type { GuestLimits } from "./limits.ts";
import { Shares, shareOf } from "./shares.ts";

const http2Preface = "PRI * HTTP/2.0";

/** Clients of HTTP/1.1 can read it; others see the connection end. */
const refusal =
  "HTTP/1.1 426 Upgrade Required\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\n" +
  "refused: from other machines this server is spoken to encrypted only\n";

/** A socket, or a line that somebody carries. */
export interface Guest extends Duplex {
  readonly bytesRead?: number;
  readonly remoteAddress?: string | undefined;
  setNoDelay(on: boolean): unknown;
}

/** What a connection turns out to speak. */
export interface Tables {
  readonly http1: (socket: Guest) => void;
  readonly http2: (socket: Guest) => void;
  /** Undefined where nothing is encrypted. */
  readonly tls?: ((socket: Guest) => TLSSocket) | undefined;
  /** Lines that are sealed by our own handshake; `proved` is to be called when somebody was let in on one. */
  readonly sealed?: ((socket: Guest, proved: () => void) => void) | undefined;
  /** Whether this guest may speak in plain text. */
  readonly plain: (socket: Guest) => boolean;
}

export class Guests {
  readonly #timers: Timers;
  readonly #limits: GuestLimits;
  readonly #onProved: (socket: Guest) => void;
  readonly #sockets = new Set<Guest>();
  readonly #shares: Shares;
  readonly #door: Door;
  /** Those that were given up on. */
  readonly #late = new WeakSet<object>();
  /** No request has come on them yet; the oldest first. */
  readonly #unproven = new Set<Guest>();
  /** By what speaks HTTP on it: the connection itself, or what is inside its encryption. */
  readonly #outer = new WeakMap<object, Guest>();
  /** The connection whose HTTP/2 session is being made. */
  #greeting: Guest | undefined;
  /** What an HTTP/1.1 connection has to do next, and until when. */
  readonly #due = new WeakMap<object, Cancel>();

  /** `onProved` hears of each connection on which somebody was let in to ask. */
  constructor(timers: Timers, limits: GuestLimits, onProved: (socket: Guest) => void = () => {}) {
    this.#timers = timers;
    this.#onProved = onProved;
    this.#limits = limits;
    this.#shares = new Shares(limits.connectionsPerAddress, limits.connectionsMax);
    this.#door = new Door(timers, limits.door);
  }

  get count(): number {
    return this.#sockets.size;
  }

  /** Hands the connection on once it is known what it speaks; closes it, or an older one, if there are too many. */
  welcome(socket: Guest, tables: Tables): void {
    const share = shareOf(plainAddress(socket.remoteAddress ?? ""));
    if (!this.#shares.take(share) && !(this.#leaveOldest(share) && this.#shares.take(share)))
      return void socket.destroy();
    this.#sockets.add(socket);
    this.#unproven.add(socket);
    socket.on("error", () => socket.destroy());
    let gone = () => {};
    socket.once("close", () => {
      gone();
      if (this.#sockets.delete(socket)) this.#shares.give(share);
      const isWasted = this.#late.has(socket) || (socket.bytesRead ?? 0) > 0;
      if (this.#unproven.delete(socket) && isWasted) this.#door.wasted(share);
    });
    if (this.#unproven.size > this.#limits.unprovenMax) this.#leaveOldest();
    gone = this.#door.arrived(
      share,
      () => !socket.destroyed && this.#greet(socket, tables),
      () => socket.destroy(),
    );
  }

  /** Of a share's or of all connections that have asked for nothing, the oldest ends. False if there is none. */
  #leaveOldest(share?: string): boolean {
    for (const socket of this.#unproven) {
      const its = shareOf(plainAddress(socket.remoteAddress ?? ""));
      if (share !== undefined && this.#shares.of(share) >= this.#limits.connectionsPerAddress && its !== share)
        continue;
      this.#unproven.delete(socket);
      // At once: whoever comes takes its place.
      if (this.#sockets.delete(socket)) this.#shares.give(its);
      socket.destroy();
      return true;
    }
    return false;
  }

  /** By whatever speaks on it. */
  #proved(connection: object | undefined): void {
    const socket = connection && this.#outer.get(connection);
    if (socket === undefined || !this.#unproven.delete(socket)) return;
    this.#onProved(socket);
    this.#door.used(shareOf(plainAddress(socket.remoteAddress ?? "")));
  }

  #greet(socket: Guest, tables: Tables, outer = socket): void {
    this.#outer.set(socket, outer);
    const late = this.#expect(socket, this.#limits.prefaceMs);
    socket.once("close", () => {
      late();
      this.#due.get(socket)?.();
    });
    socket.on("error", () => socket.destroy());
    socket.setNoDelay(true);
    let head = "";
    const read = () => {
      const bytes = socket.read() as Buffer | null;
      if (bytes === null) return void socket.destroy();
      socket.unshift(bytes);
      if (tables.tls !== undefined && bytes[0] === handshakeByte) {
        socket.off("readable", read);
        late();
        return this.#agree(tables.tls(socket), tables, outer);
      }
      if (tables.sealed !== undefined && bytes[0] === sealByte) {
        socket.off("readable", read);
        late();
        return tables.sealed(socket, () => this.#proved(outer));
      }
      const before = head.length;
      head = bytes.toString("latin1", 0, http2Preface.length);
      // Requests of HTTP/1.1 may begin with the same letters; `readable` comes again when there is more.
      const mayBeEither = head.length < http2Preface.length && http2Preface.startsWith(head);
      if (mayBeEither && head.length > before) return;
      socket.off("readable", read);
      late();
      if (!tables.plain(socket)) {
        // Who was told to go and stays is let go like anybody who says nothing.
        this.#due.set(socket, this.#expect(socket, this.#limits.prefaceMs));
        socket.end(refusal);
        return void socket.resume();
      }
      if (head === http2Preface) {
        this.#greeting = outer;
        tables.http2(socket);
        this.#greeting = undefined;
        return;
      }
      this.#due.set(socket, this.#expect(socket, this.#limits.headersMs));
      tables.http1(socket);
    };
    socket.on("readable", read);
  }

  /** Once both ends are agreed, what is inside is a connection like any other. */
  #agree(socket: TLSSocket, tables: Tables, outer: Guest): void {
    const late = this.#expect(socket, this.#limits.headersMs);
    socket.on("error", () => socket.destroy());
    socket.once("secure", () => {
      late();
      this.#greet(socket, { ...tables, tls: undefined, plain: () => true }, outer);
    });
    socket.once("close", late);
  }

  /** The headers of an HTTP/1.1 request are here. */
  began(request: IncomingMessage, response: ServerResponse): void {
    const { socket } = request;
    const { bodyMs, idleMs, headersMs } = this.#limits;
    this.#proved(socket);
    this.#due.get(socket)?.();
    const watch = (read: number) => {
      const check = () => {
        if (request.complete) return;
        // A handler that does not read holds the sender back; that is not the sender's fault.
        if (socket.bytesRead > read || socket.isPaused()) watch(socket.bytesRead);
        else socket.destroy();
      };
      this.#due.set(socket, within(this.#timers, bodyMs, check));
    };
    if (!request.complete) watch(socket.bytesRead);
    response.once("close", () => {
      this.#due.get(socket)?.();
      if (!socket.destroyed) this.#due.set(socket, this.#expect(socket, idleMs + headersMs));
    });
  }

  /** An HTTP/1.1 connection becomes a WebSocket, which has deadlines of its own. Gives what is to be called when it is of use. */
  upgraded(socket: Duplex): () => void {
    this.#due.get(socket)?.();
    return () => this.#proved(socket);
  }

  /** An HTTP/2 connection. */
  watch(session: ServerHttp2Session): void {
    const { headersMs, idleMs } = this.#limits;
    const streams = new Set<Http2Stream>();
    const outer = this.#greeting;
    const leave = () => session.destroy();
    const liveness = new Liveness(session, streams, this.#timers, this.#limits, leave);
    let due = within(this.#timers, headersMs, leave);
    const idle = () => {
      liveness.stop();
      due();
      if (!session.destroyed) due = within(this.#timers, idleMs, leave);
    };
    session.once("remoteSettings", () => streams.size === 0 && idle());
    session.on("stream", (stream) => {
      streams.add(stream);
      this.#proved(outer);
      due();
      liveness.start();
      stream.once("close", () => {
        streams.delete(stream);
        if (streams.size === 0) idle();
      });
    });
    session.once("close", () => {
      due();
      liveness.stop();
    });
  }

  leave(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  #expect(socket: Guest, limitMs: number): Cancel {
    return within(this.#timers, limitMs, () => {
      this.#late.add(this.#outer.get(socket) ?? socket);
      socket.destroy();
    });
  }
}
