// What comes of requests' bodies before anybody reads it: how much may lie in memory, for how long, and what becomes of it when the request is refused.

import { DcnrError } from "../../core/errors.ts";
import type { Timers } from "../../core/world.ts";
import { within } from "../connections/deadline.ts";
import { tooMuch, type Visit } from "./desk.ts";
import type { NodeServerRequest } from "./http.ts";

/** The message of a call is kept until it is whole: it has so long for that, and counts from its first byte. */
export function boundBody(
  request: NodeServerRequest,
  visit: Visit,
  timers: Timers,
  callMs: number,
  turnAway: (error: unknown) => void,
): void {
  const end = (error: DcnrError) => {
    late();
    turnAway(error);
  };
  const late = within(timers, callMs, () =>
    end(new DcnrError("deadline_exceeded", "the request took too long to come")),
  );
  request.once("end", late);
  request.once("close", late);
  // Where the pieces of both HTTP versions pass; listening to them would start them.
  const push = request.push.bind(request);
  request.push = (chunk: Uint8Array | null, ...rest) => {
    if (chunk === null || visit.hold(chunk.byteLength)) return push(chunk, ...rest);
    end(tooMuch("too many bytes of yours, or in all, are in memory"));
    return false;
  };
}

/** Much may come of a request before anybody reads, of HTTP/2 a whole window: what lies there unread counts, too. */
export function boundUnread(request: NodeServerRequest, visit: Visit): void {
  const stream = "stream" in request ? request.stream : request;
  const push = stream.push.bind(stream);
  let held = 0;
  stream.push = (chunk: Uint8Array | null, ...rest) => {
    const goesOn = push(chunk, ...rest);
    const more = stream.readableLength - held;
    if (visit.hold(more)) held += more;
    else if (more > 0) stream.destroy();
    return goesOn;
  };
}

/** Of whoever was refused nothing more is kept, and who does not take the answer goes without. */
export function letGo(request: NodeServerRequest, timers: Timers, limitMs: number): void {
  if (!("stream" in request) || request.stream.destroyed) return;
  const { stream } = request;
  // Reading on would reset one that closes by itself before its answer has left.
  if (!stream.closed) stream.resume();
  stream.once(
    "close",
    within(timers, limitMs, () => stream.destroy()),
  );
}
