// Two connections become one: what comes on either goes out on the other, no faster than it is taken. When one ends, so does the other.

import type { Duplex } from "node:stream";
import type { Timers } from "../../core/world.ts";
import { within } from "../connections/deadline.ts";
import type { Line } from "../routes/line.ts";
import { encodeRecord, RecordReader } from "../socket/records.ts";
import { frameBytesMax } from "../socket/socket-frames.ts";

/** What one end has sent before it left still reaches the other within this. */
const lingerMs = 5_000;

export function splice(one: Duplex, other: Duplex, timers: Timers): void {
  follow(one, other, timers);
  follow(other, one, timers);
  one.pipe(other);
  other.pipe(one);
}

/** `to` ends when `from` has. */
function follow(from: Duplex, to: Duplex, timers: Timers): void {
  from.on("error", () => from.destroy());
  const gone = () => {
    // Torn: nothing more comes, and nobody may take it for a regular end.
    if (!from.readableEnded) return void to.destroy();
    if (to.destroyed) return;
    const late = within(timers, lingerMs, () => to.destroy());
    to.once("close", late);
    to.end();
  };
  if (from.destroyed) gone();
  else from.once("close", gone);
}

/** The same with a line, whose messages stay whole: each is a record on the socket. Settles when both have ended. */
export async function spliceLine(line: Line, socket: Duplex): Promise<void> {
  socket.on("error", () => socket.destroy());
  const end = () => {
    line.close();
    socket.destroy();
  };
  socket.once("close", end);
  const outward = async () => {
    const reader = new RecordReader(socket[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>);
    for (let message = await reader.next(frameBytesMax); message; message = await reader.next(frameBytesMax))
      await line.send(message);
  };
  const inward = async () => {
    for await (const message of line.incoming) if (!socket.write(encodeRecord(message))) await drained(socket);
    socket.end();
  };
  await Promise.allSettled([outward().finally(end), inward().catch(end)]);
}

/** The other end of that: a socket with records as a line. */
export function recordLine(socket: Duplex): Line {
  socket.on("error", () => socket.destroy());
  async function* incoming(): AsyncGenerator<Uint8Array> {
    const reader = new RecordReader(socket[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>);
    for (let message = await reader.next(frameBytesMax); message; message = await reader.next(frameBytesMax))
      yield message;
  }
  return {
    send: async (message) => {
      if (!socket.write(encodeRecord(message))) await drained(socket);
    },
    incoming: incoming(),
    close: () => void socket.destroy(),
  };
}

/** Settles when more may be written, or nothing can be any more. */
export function drained(socket: Duplex): Promise<void> {
  return new Promise((resolve) => {
    if (socket.destroyed) return resolve();
    const done = () => {
      socket.off("drain", done);
      socket.off("close", done);
      resolve();
    };
    socket.on("drain", done);
    socket.on("close", done);
  });
}
