// Blobs for a PNode: asks an orchestrator for a short-lived address, moves the bytes itself, and believes only what
// has the right hash.

import { DcnrError, fail } from "../core/errors.ts";
import { sha256 } from "../core/hash.ts";
import type { Sha256 } from "../core/ids.ts";
import { Backoff } from "../core/retry.ts";
import { sleep, type World } from "../core/world.ts";
import type { Bandwidth } from "../peer/bandwidth.ts";
import { BlobAction, PNodeService } from "../protocol/gen/dcnr/v1/pnode_pb.ts";
import type { BlobCache, BlobTransfer, Timings } from "./options.ts";
import type { Orchestrators } from "./orchestrators.ts";

/** The largest state of one VNode, dataset shard or manifest that a PNode takes. */
const blobBytesMax = 2 ** 31;

/** A blob that comes damaged or not at all this often is taken for lost. */
const downloadAttempts = 4;

export interface BlobClientOptions {
  readonly pnode: string;
  readonly orchestrators: Orchestrators;
  readonly transfer: BlobTransfer;
  readonly bandwidth: Bandwidth;
  readonly cache?: BlobCache;
  readonly world: World;
  readonly timings: Timings;
}

export class BlobClient {
  readonly #options: BlobClientOptions;

  constructor(options: BlobClientOptions) {
    this.#options = options;
  }

  async fetch(session: string, hash: Sha256, signal: AbortSignal): Promise<Uint8Array> {
    const cached = await this.#options.cache?.get(hash).catch(() => undefined);
    if (cached !== undefined && sha256(cached) === hash) return cached;
    const { timings, world } = this.#options;
    const backoff = new Backoff(timings.retryMinMs, timings.retryMaxMs, world.chance);
    for (let attempt = 1; ; attempt++) {
      try {
        const content = await this.#download(session, hash, signal);
        await this.#options.cache?.put(hash, content).catch(() => {});
        return content;
      } catch (error) {
        const known = DcnrError.from(error, "unavailable");
        if (signal.aborted || attempt >= downloadAttempts) throw known;
        await sleep(world.timers, backoff.next(), signal);
      }
    }
  }

  async #download(session: string, hash: Sha256, signal: AbortSignal): Promise<Uint8Array> {
    const { orchestrators, transfer, pnode } = this.#options;
    const request = { pnode, session, hash, bytes: 0n, action: BlobAction.DOWNLOAD };
    const grant = await orchestrators.call(PNodeService.method.grantBlob, request, signal);
    const content = await transfer.download({ url: grant.url, headers: grant.headers }, blobBytesMax, signal);
    if (sha256(content) !== hash) fail("data_loss", `blob ${hash} came damaged`);
    return content;
  }

  /** Stores the bytes under their hash; one attempt. */
  async store(session: string, hash: Sha256, content: Uint8Array, signal: AbortSignal): Promise<void> {
    const { orchestrators, transfer, pnode } = this.#options;
    const request = { pnode, session, hash, bytes: BigInt(content.byteLength), action: BlobAction.UPLOAD };
    const grant = await orchestrators.call(PNodeService.method.grantBlob, request, signal);
    if (grant.present) return;
    await this.#options.bandwidth.take(content.byteLength, signal);
    await transfer.upload({ url: grant.url, headers: grant.headers }, content, signal);
  }
}
