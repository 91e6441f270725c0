// A line on the WebSocket that browsers have (and newer versions of Node): nothing of Node's is needed here.

import { DcnrError } from "../../core/errors.ts";
import { sleep, type Timers } from "../../core/world.ts";
import type { Line } from "../routes/line.ts";

/** Where processes take calls over WebSockets, and what they call what is spoken there. */
export const socketPath = "/dcnr/socket";
export const socketProtocol = "dcnr";

/** What is used of the web's own class. */
export interface WebSocketLike {
  binaryType: string;
  readonly bufferedAmount: number;
  send(data: Uint8Array<ArrayBuffer>): void;
  close(): void;
  addEventListener(type: "open" | "message" | "close" | "error", listener: (event: { data?: unknown }) => void): void;
}

/** Beyond it, whoever sends waits. The web tells of no moment when there is room again: it is asked from time to time. */
const bufferedBytesMax = 1 << 20;
const lookMs = 5;

/** `open` makes the socket: the web's own class unless something else is given. */
export async function webSocketLine(
  url: string,
  timers: Timers,
  signal: AbortSignal,
  open: (url: string, protocol: string) => WebSocketLike = (at, protocol) => new WebSocket(at, protocol),
): Promise<Line> {
  const socket = open(url, socketProtocol);
  socket.binaryType = "arraybuffer";
  const arrived: Uint8Array[] = [];
  let wake = () => {};
  let isClosed = false;
  const opened = Promise.withResolvers<void>();
  socket.addEventListener("open", () => opened.resolve());
  socket.addEventListener("message", ({ data }) => {
    // Text is not spoken here: an empty message is nothing that anybody understands.
    arrived.push(data instanceof ArrayBuffer ? new Uint8Array(data) : new Uint8Array(0));
    wake();
  });
  const ended = () => {
    isClosed = true;
    opened.reject(new DcnrError("unavailable", `nothing that takes calls answers at ${url}`));
    wake();
  };
  socket.addEventListener("close", ended);
  socket.addEventListener("error", ended);
  const left = () => socket.close();
  signal.addEventListener("abort", left, { once: true });
  await opened.promise.finally(() => signal.removeEventListener("abort", left));
  async function* incoming(): AsyncGenerator<Uint8Array> {
    for (;;) {
      const next = arrived.shift();
      if (next !== undefined) yield next;
      else if (isClosed) return;
      else
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
    }
  }
  return {
    send: async (message) => {
      while (!isClosed && socket.bufferedAmount > bufferedBytesMax) await sleep(timers, lookMs);
      if (isClosed) throw new DcnrError("unavailable", "the socket has closed");
      socket.send(message as Uint8Array<ArrayBuffer>);
    },
    incoming: incoming(),
    close: () => socket.close(),
  };
}
