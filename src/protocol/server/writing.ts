// Writes the answers of plain HTTP: no faster than whoever asked takes them, with what waits in memory counted as theirs. One of which nothing
// is taken for long ends; a slow line that moves goes on for as long as it takes.

import type { ServerResponse } from "node:http";
import type { Timers } from "../../core/world.ts";
import { within } from "../connections/deadline.ts";
import type { Visit } from "./desk.ts";
import type { NodeServerResponse } from "./http.ts";

/** Handed to the system at a time, so that slow lines show that they move. */
const sliceBytes = 64 << 10;

export interface Patience {
  readonly visit: Pick<Visit, "hold">;
  readonly timers: Timers;
  /** Without a slice that is taken. */
  readonly stallMs: number;
}

export async function writeAnswer(answer: Response, answering: NodeServerResponse, patience: Patience): Promise<void> {
  const response = answering as ServerResponse;
  const headers: Record<string, string | string[]> = {};
  for (const [name, value] of answer.headers) headers[name] = value;
  response.writeHead(answer.status, headers);
  if (answer.body === null || response.req.method === "HEAD") return void response.end();
  // What fails on the way to somebody is seen when it closes.
  response.on("error", () => response.destroy());
  const pieces = answer.body.getReader();
  const cancel = () => void pieces.cancel().catch(() => {});
  response.once("close", cancel);
  try {
    for (let next = await pieces.read(); !next.done; next = await pieces.read())
      if (!(await writePiece(next.value, response, patience))) return void response.destroy();
    response.off("close", cancel);
    if (!response.destroyed) response.end();
  } catch {
    // The head was sent: a broken answer is all that can still be said.
    response.destroy();
  }
}

/** False if there is no room for it, or nobody takes it. */
async function writePiece(piece: Uint8Array, response: ServerResponse, patience: Patience): Promise<boolean> {
  const { hold } = patience.visit;
  if (!hold(piece.byteLength)) return false;
  for (let at = 0; at < piece.byteLength; at += sliceBytes) {
    const slice = piece.subarray(at, at + sliceBytes);
    if (!(await isTaken(slice, response, patience))) return false;
    hold(-slice.byteLength);
  }
  return true;
}

function isTaken(slice: Uint8Array, response: ServerResponse, { timers, stallMs }: Patience): Promise<boolean> {
  if (response.destroyed || response.closed) return Promise.resolve(false);
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const gone = () => resolve(false);
  const late = within(timers, stallMs, gone);
  response.once("close", gone);
  response.write(slice, (error) => resolve(!error));
  return promise.finally(() => {
    late();
    response.off("close", gone);
  });
}
