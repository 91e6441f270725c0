// What others may take of a process that listens: time, connections, requests, memory. All such limits stand here, each
// with its reason. Honest callers never meet them; whoever floods gets its share refused and nobody else's.

import type { LivenessLimits } from "../connections/liveness.ts";
import type { DoorLimits } from "./door.ts";

export interface GuestLimits extends LivenessLimits {
  readonly door: DoorLimits;
  /** Until the first bytes tell what a connection speaks. */
  readonly prefaceMs: number;
  /** From there until HTTP/2's settings or the headers of an HTTP/1.1 request are here whole. */
  readonly headersMs: number;
  /** Without a byte of a request over HTTP/1.1 that has begun and is not whole. In total it may take as long as it takes. */
  readonly bodyMs: number;
  /** For the whole message of a call; streams and plain HTTP take as long as they take. */
  readonly callMs: number;
  /** Of plain HTTP, without a piece of an answer that is taken. In total it may take as long as it takes. */
  readonly answerMs: number;
  /** Without any request. Callers of our own close idle connections long before. */
  readonly idleMs: number;
  readonly connectionsMax: number;
  readonly connectionsPerAddress: number;
  /** Connections on which no request has come yet: beyond it the oldest of them goes. */
  readonly unprovenMax: number;
  readonly streamsPerConnection: number;
  /** Of a request, names and values. */
  readonly headerBytesMax: number;
  readonly headerCountMax: number;
  /** Requests and streams at once. */
  readonly requestsMax: number;
  readonly requestsPerAddress: number;
  readonly requestsPerKey: number;
  /** Of messages and bodies that have come and are not dealt with, and of answers of plain HTTP that nobody has taken yet. */
  readonly bytesMax: number;
  readonly bytesPerAddress: number;
  readonly bytesPerKey: number;
  /** Calls that make records, by their paths, that begin within a minute. */
  readonly rare: readonly string[];
  readonly rarePerMinute: number;
  readonly rarePerMinuteAndAddress: number;
}

export const guestLimitsDefault: GuestLimits = {
  // Browsers open connections that they never use; a machine of ours has one or two. Callers wait ten seconds for a connection.
  door: {
    ...{ wastedFree: 8, turnMinMs: 100, turnMaxMs: 2_000, apartMs: 20 },
    ...{ waitMs: 20_000, forgetMs: 30_000, sharesMax: 10_000 },
  },
  prefaceMs: 10_000,
  headersMs: 10_000,
  bodyMs: 30_000,
  // The largest message needs half a minute at 143 KB/s.
  callMs: 120_000,
  // A piece of 64 KiB needs a tenth of a second at 5 Mbit/s; as long as many share one line, each may wait for its turn.
  answerMs: 60_000,
  idleMs: 120_000,
  quietMs: 10_000,
  pingMs: 10_000,
  // Enough for every peer of a large PNode, few enough that strangers cannot exhaust descriptors.
  connectionsMax: 20_000,
  // A lab or an office behind one address; a process of ours has one or two.
  connectionsPerAddress: 512,
  unprovenMax: 1_024,
  streamsPerConnection: 1_024,
  headerBytesMax: 16 << 10,
  headerCountMax: 100,
  requestsMax: 50_000,
  requestsPerAddress: 4_096,
  requestsPerKey: 1_024,
  bytesMax: 512 << 20,
  bytesPerAddress: 128 << 20,
  bytesPerKey: 64 << 20,
  rare: ["/dcnr.v1.PNodeService/Attach"],
  // After the loss of an orchestrator every PNode attaches anew, some of them several times.
  rarePerMinute: 20_000,
  rarePerMinuteAndAddress: 600,
};
