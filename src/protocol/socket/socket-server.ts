// Takes sockets in on the port of a process: WebSockets, and lines that are sealed by our own handshake. A socket that begins with that is its
// key holder's; others call as whoever TLS says, or by what their calls show.

import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { messageOf } from "../../core/errors.ts";
import type { Log, Timers } from "../../core/world.ts";
import { within } from "../connections/deadline.ts";
import type { Caller } from "../network.ts";
import type { Line } from "../routes/line.ts";
import type { GuestLimits } from "../server/limits.ts";
import type { Answering } from "./answering.ts";
import { duplexLine } from "./duplex-line.ts";
import { acceptOf, isKey, webSocketOn } from "./rfc6455.ts";
import { type Signer, sealAnswering, sealByte } from "./sealed-line.ts";
import { socketPath, socketProtocol } from "./web-socket-line.ts";

export interface SocketServerOptions {
  readonly answering: Pick<Answering, "serve">;
  readonly timers: Timers;
  readonly limits: GuestLimits;
  readonly log: Log;
  /** Undefined for a process without a key: nothing is sealed there. */
  readonly signer: () => Signer | undefined;
}

export class SocketServer {
  readonly #options: SocketServerOptions;

  constructor(options: SocketServerOptions) {
    this.#options = options;
  }

  /** A request to speak WebSocket, which was let in. `proved` is called when the first call on it is let in. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer, caller: Caller, proved: () => void): void {
    const refusal = refusalOf(request);
    if (refusal !== undefined) return void turnAway(socket, refusal);
    const lines = [
      "HTTP/1.1 101 Switching Protocols",
      "upgrade: websocket",
      "connection: Upgrade",
      `sec-websocket-accept: ${acceptOf(request.headers["sec-websocket-key"] as string)}`,
      `sec-websocket-protocol: ${socketProtocol}`,
    ];
    socket.write(`${lines.join("\r\n")}\r\n\r\n`);
    this.#greet(webSocketOn(socket, head, "server"), caller, proved);
  }

  /** A connection that begins with the seal. */
  sealed(socket: Duplex, address: string, proved: () => void): void {
    this.#greet(duplexLine(socket), { address }, proved);
  }

  /** What a caller speaks is told by its first byte; it has so long to get through with proving its key. */
  #greet(line: Line, caller: Caller, proved: () => void): void {
    const { timers, limits, answering, signer, log } = this.#options;
    const late = within(timers, limits.headersMs, () => line.close());
    const greet = async () => {
      const messages = line.incoming[Symbol.asyncIterator]();
      const first = await messages.next();
      if (first.done) return;
      const whole: Line = { ...line, incoming: continued(first.value, messages) };
      if (first.value[0] !== sealByte) return answering.serve(whole, caller, proved);
      const own = signer();
      if (own === undefined) return line.close();
      const { line: opened, caller: holder } = await sealAnswering(whole, own);
      const { address } = caller;
      const keys = holder && holder.keys.length > 1 && { keys: holder.keys };
      answering.serve(opened, { address, ...(holder && { id: holder.id }), ...keys }, proved);
    };
    greet()
      .catch((error: unknown) => {
        log("debug", `a socket came to nothing: ${messageOf(error)}`);
        line.close();
      })
      .finally(late);
  }
}

async function* continued(first: Uint8Array, rest: AsyncIterator<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield first;
  for (let next = await rest.next(); !next.done; next = await rest.next()) yield next.value;
}

interface Refusal {
  readonly status: string;
  readonly why: string;
}

function refusalOf({ url = "", headers, method }: IncomingMessage): Refusal | undefined {
  const { upgrade = "", "sec-websocket-version": version, "sec-websocket-key": key } = headers;
  if (method !== "GET" || url.split("?", 1)[0] !== socketPath || upgrade.toLowerCase() !== "websocket")
    return { status: "404 Not Found", why: `nothing is spoken here but HTTP, and WebSocket at ${socketPath}` };
  if (version !== "13") return { status: "426 Upgrade Required", why: "WebSocket of version 13 is spoken here" };
  const protocols = (headers["sec-websocket-protocol"] ?? "").split(",").map((name) => name.trim());
  if (!isKey(key) || !protocols.includes(socketProtocol))
    return { status: "400 Bad Request", why: `the WebSocket must be opened for the protocol "${socketProtocol}"` };
  return undefined;
}

export function turnAway(socket: Duplex, { status, why }: Refusal): void {
  const more = status.startsWith("426") ? "sec-websocket-version: 13\r\n" : "";
  const answer = `HTTP/1.1 ${status}\r\ncontent-type: text/plain\r\n${more}connection: close\r\n\r\n${why}\n`;
  socket.resume();
  // Nobody else waits for who was told to go and stays.
  socket.end(answer, () => socket.destroy());
}
