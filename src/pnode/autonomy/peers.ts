// Calls between the PNodes of a crew: news, requests to keep a state, blobs by their hashes. Believes nothing of a blob
// but what hashes to its name, and takes no memory for more than was asked for.

import type { Bandwidth } from "../../core/bandwidth.ts";
import { fail } from "../../core/errors.ts";
import type { Digest } from "../../core/hash.ts";
import type { PNodeId, Sha256 } from "../../core/ids.ts";
import { untilEither } from "../../core/signals.ts";
import type { World } from "../../core/world.ts";
import { SessionPeerService } from "../../protocol/gen/dcnr/v1/session_peers_pb.ts";
import type { Network, RequestInit, ResponseOf } from "../../protocol/network.ts";
import { withKey } from "../../protocol/routes/address.ts";

export interface Peer {
  readonly pnode: string;
  readonly routes: string;
}

export interface CrewPeersOptions {
  readonly network: Network;
  readonly world: World;
  readonly digest: Digest;
  readonly bandwidth: Bandwidth;
  readonly signal: AbortSignal;
}

/** News is small: a peer that does not answer within this is not heard. */
export const tellTimeoutMs = 1_500;
/** A peer that sends nothing of a blob for this long, and of whom nobody hears either, is given up; somebody else may have it. */
const quietMs = 5_000;
/** One that is heard has a slow line, which others share, and longer. */
const quietTimesMax = 6;
/** A home's line takes a second for it, also where several are on their way at once. */
const pieceBytes = 64 << 10;
/** The keeper goes on with what it has begun, however long that takes: whoever asks again waits for the same. */
const keepTimeoutMs = 120_000;

/** A definition may be long, and a home's line slow. */
const describeTimeoutMs = 10_000;

type Enlist = typeof SessionPeerService.method.enlist;
type Tell = typeof SessionPeerService.method.tell;
type Keep = typeof SessionPeerService.method.keep;

export class CrewPeers {
  readonly #options: CrewPeersOptions;

  constructor(options: CrewPeersOptions) {
    this.#options = options;
  }

  tell(peer: Peer, request: RequestInit<Tell>): Promise<ResponseOf<Tell>> {
    const { network, signal } = this.#options;
    return network.call(placeOf(peer), SessionPeerService.method.tell, request, { timeoutMs: tellTimeoutMs, signal });
  }

  keep(peer: Peer, request: RequestInit<Keep>): Promise<ResponseOf<Keep>> {
    const { network, signal } = this.#options;
    return network.call(placeOf(peer), SessionPeerService.method.keep, request, { timeoutMs: keepTimeoutMs, signal });
  }

  enlist(peer: Peer, request: RequestInit<Enlist>): Promise<ResponseOf<Enlist>> {
    const { network, signal } = this.#options;
    return network.call(placeOf(peer), SessionPeerService.method.enlist, request, { timeoutMs: tellTimeoutMs, signal });
  }

  describe(peer: Peer, session: string): Promise<ResponseOf<typeof SessionPeerService.method.describe>> {
    const { network, signal } = this.#options;
    const options = { timeoutMs: describeTimeoutMs, signal };
    return network.call(placeOf(peer), SessionPeerService.method.describe, { session }, options);
  }

  /** `room` makes memory for the size that the peer says, or refuses it. `isThere`: whether anybody hears of the peer. */
  async fetch(
    peer: Peer,
    { session, hash }: { readonly session: string; readonly hash: Sha256 },
    room: (bytes: number) => Uint8Array,
    isThere: () => boolean,
    outer: AbortSignal,
  ): Promise<Uint8Array> {
    const { network, world, digest } = this.#options;
    const stalled = new AbortController();
    let cancel = () => {};
    const arm = (quietTimes = 1) => {
      cancel();
      cancel = world.timers.after(quietMs, () => {
        if (quietTimes < quietTimesMax && isThere()) arm(quietTimes + 1);
        else stalled.abort();
      });
    };
    arm();
    let content: Uint8Array | undefined;
    let filled = 0;
    const fill = async (signal: AbortSignal) => {
      const pieces = network.watch(placeOf(peer), SessionPeerService.method.fetch, { session, hash }, { signal });
      for await (const { bytes, data } of pieces) {
        arm();
        content ??= room(Number(bytes));
        if (filled + data.byteLength > content.byteLength) fail("data_loss", `blob ${hash} is longer than it said`);
        content.set(data, filled);
        filled += data.byteLength;
      }
    };
    await untilEither([this.#options.signal, outer, stalled.signal], fill).finally(() => cancel());
    if (content === undefined || filled !== content.byteLength)
      fail("unavailable", `PNode ${peer.pnode} sent ${filled} bytes of blob ${hash}`);
    if ((await digest(content)) !== hash) fail("data_loss", `blob ${hash} came damaged from PNode ${peer.pnode}`);
    return content;
  }

  /** The answering side of `fetch`. */
  async *pieces(content: Uint8Array, signal: AbortSignal): AsyncGenerator<{ bytes: bigint; data: Uint8Array }> {
    for (let from = 0; from === 0 || from < content.byteLength; from += pieceBytes) {
      const data = content.subarray(from, from + pieceBytes);
      await this.#options.bandwidth.take(data.byteLength, signal);
      yield { bytes: BigInt(content.byteLength), data };
    }
  }
}

function placeOf({ routes, pnode }: Peer): string {
  return withKey(routes, pnode as PNodeId);
}
