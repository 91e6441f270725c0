// Connections that others open to this process: what they speak is told by their first bytes, and whoever says nothing,
// stops in the middle of a request or falls silent is let go. A socket costs memory and a descriptor, and strangers
// could otherwise keep as many as they like for ever.

import type { IncomingMessage, ServerResponse } from "node:http";
import type { Http2Stream, ServerHttp2Session } from "node:http2";
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import type { Cancel, Timers } from "../core/world.ts";
import { within } from "./deadline.ts";
import { Liveness, type LivenessLimits } from "./liveness.ts";
import { handshakeByte } from "./tls.ts";

export interface GuestLimits extends LivenessLimits {
  /** Until the first bytes tell what a connection speaks. */
  readonly prefaceMs: number;
  /** From there until HTTP/2's settings or the headers of an HTTP/1.1 request are here whole. */
  readonly headersMs: number;
  /** Without a byte of a request that has begun and is not whole. In total it may take as long as it takes. */
  readonly bodyMs: number;
  /** Without any request. Callers of our own close idle connections long before. */
  readonly idleMs: number;
}

export const guestLimitsDefault: GuestLimits = {
  prefaceMs: 10_000,
  headersMs: 10_000,
  bodyMs: 30_000,
  idleMs: 120_000,
  quietMs: 10_000,
  pingMs: 10_000,
};

const http2Preface = "PRI * HTTP/2.0";

/** Clients of HTTP/1.1 can read it; others see the connection end. */
const refusal =
  "HTTP/1.1 426 Upgrade Required\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\n" +
  "refused: from other machines this server is spoken to encrypted only\n";

/** What a connection turns out to speak. */
export interface Tables {
  readonly http1: (socket: Socket) => void;
  readonly http2: (socket: Socket) => void;
  /** Undefined where nothing is encrypted. */
  readonly tls?: ((socket: Socket) => TLSSocket) | undefined;
  /** Whether this guest may speak in plain text. */
  readonly plain: (socket: Socket) => boolean;
}

export class Guests {
  readonly #timers: Timers;
  readonly #limits: GuestLimits;
  readonly #sockets = new Set<Socket>();
  /** What an HTTP/1.1 connection has to do next, and until when. */
  readonly #due = new WeakMap<Socket, Cancel>();

  constructor(timers: Timers, limits: GuestLimits) {
    this.#timers = timers;
    this.#limits = limits;
  }

  get count(): number {
    return this.#sockets.size;
  }

  /** Hands the connection on once it is known what it speaks. */
  welcome(socket: Socket, tables: Tables): void {
    this.#sockets.add(socket);
    const late = this.#expect(socket, this.#limits.prefaceMs);
    socket.once("close", () => {
      this.#sockets.delete(socket);
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
        return this.#agree(tables.tls(socket), tables);
      }
      const before = head.length;
      head = bytes.toString("latin1", 0, http2Preface.length);
      // Requests of HTTP/1.1 may begin with the same letters; `readable` comes again when there is more.
      const mayBeEither = head.length < http2Preface.length && http2Preface.startsWith(head);
      if (mayBeEither && head.length > before) return;
      socket.off("readable", read);
      late();
      if (!tables.plain(socket)) return void socket.end(refusal);
      if (head === http2Preface) return tables.http2(socket);
      this.#due.set(socket, this.#expect(socket, this.#limits.headersMs));
      tables.http1(socket);
    };
    socket.on("readable", read);
  }

  /** Once both ends are agreed, what is inside is a connection like any other. */
  #agree(socket: TLSSocket, tables: Tables): void {
    const late = this.#expect(socket, this.#limits.headersMs);
    socket.on("error", () => socket.destroy());
    socket.once("secure", () => {
      late();
      this.welcome(socket, { ...tables, tls: undefined, plain: () => true });
    });
    socket.once("close", late);
  }

  /** The headers of an HTTP/1.1 request are here. */
  began(request: IncomingMessage, response: ServerResponse): void {
    const { socket } = request;
    const { bodyMs, idleMs, headersMs } = this.#limits;
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

  /** An HTTP/2 connection. */
  watch(session: ServerHttp2Session): void {
    const { headersMs, idleMs } = this.#limits;
    const streams = new Set<Http2Stream>();
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

  #expect(socket: Socket, limitMs: number): Cancel {
    return within(this.#timers, limitMs, () => socket.destroy());
  }
}
