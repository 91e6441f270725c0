// How fast a PNode's line is, found out when it joins by sending an orchestrator something that it throws away: placement
// needs to know before there is traffic that could be measured. What links measure later counts more.

import type { Clock } from "../core/world.ts";
import { PNodeService } from "../protocol/gen/dcnr/v1/pnode_pb.ts";
import { lineProbeBytesMax, type RequestInit, type ResponseOf } from "../protocol/network.ts";

const method = PNodeService.method.measureLine;

export type CallOrchestrator = (request: RequestInit<typeof method>) => Promise<ResponseOf<typeof method>>;

/** Of one call: the slowest line that is still lent sends the first probe in this. */
export const probeTimeoutMs = 30_000;
/** Of empty calls. The least of them is the way alone. */
const roundTrips = 3;
/** Grows until it takes several times the way, so that a slow line is not busy for long and a fast one not misread. */
const bytesFirst = 64 << 10;
const growth = 4;
const timesTheWay = 4;

/** Bytes a second, upward: the slower direction of a home's line. */
export async function probeLine(call: CallOrchestrator, clock: Clock): Promise<number> {
  const takes = async (bytes: number) => {
    const startMs = clock.monotonicMs();
    await call({ padding: new Uint8Array(bytes) });
    return clock.monotonicMs() - startMs;
  };
  let wayMs = Number.POSITIVE_INFINITY;
  for (let i = 0; i < roundTrips; i++) wayMs = Math.min(wayMs, await takes(0));
  for (let bytes = bytesFirst; ; bytes = Math.min(bytes * growth, lineProbeBytesMax)) {
    const tookMs = await takes(bytes);
    if (tookMs > timesTheWay * wayMs || bytes === lineProbeBytesMax)
      // A line that needs no time to speak of counts as one that needs a millisecond.
      return (bytes / Math.max(tookMs - wayMs, 1)) * 1_000;
  }
}
