// Shards in memory: fetched when first needed, verified, kept within a limit, the least recently used go
// first. What is being fetched is fetched once, however many ask for it.

import { DcnrError, fail } from "../core/errors.ts";
import { sha256 } from "../core/hash.ts";
import type { Sha256 } from "../core/ids.ts";

/** `bytes`: how many it must have, where that is known; whoever fetches need not take more. */
export type FetchBlob = (hash: Sha256, bytes?: number) => Promise<Uint8Array>;

export interface ShardCacheOptions {
  readonly fetchBlob: FetchBlob;
  readonly cacheBytesMax: number;
}

export interface ShardCache {
  /** The blob's verified bytes. `bytes` is the size that the manifest promises. */
  get(hash: Sha256, bytes: number): Promise<Uint8Array>;
  /** Starts fetching in the background what is neither here nor on its way; failures wait for `get`. */
  prefetch(hash: Sha256, bytes: number): void;
  has(hash: Sha256): boolean;
  readonly bytesHeld: number;
  /** Blobs fetched so far, for metrics and tests. */
  readonly fetches: number;
}

/** More would only fill memory: a shard is some megabytes. */
const fetchesAtOnce = 4;
/** The first answer may come damaged or from a peer that just left. */
const attempts = 3;

export function openShardCache({ fetchBlob, cacheBytesMax }: ShardCacheOptions): ShardCache {
  // A Map keeps insertion order: re-inserting on use puts the least recently used first.
  const held = new Map<Sha256, Uint8Array>();
  const pending = new Map<Sha256, Promise<Uint8Array>>();
  const queue: (() => void)[] = [];
  let running = 0;
  let bytesHeld = 0;
  let fetches = 0;

  async function slot<T>(task: () => Promise<T>): Promise<T> {
    if (running >= fetchesAtOnce) await new Promise<void>((resolve) => queue.push(resolve));
    else running++;
    try {
      return await task();
    } finally {
      const next = queue.shift();
      if (next) next();
      else running--;
    }
  }

  function keep(hash: Sha256, content: Uint8Array): void {
    if (content.byteLength > cacheBytesMax) return;
    held.set(hash, content);
    bytesHeld += content.byteLength;
    for (const [oldest, bytes] of held) {
      if (bytesHeld <= cacheBytesMax) break;
      held.delete(oldest);
      bytesHeld -= bytes.byteLength;
    }
  }

  function load(hash: Sha256, bytes: number): Promise<Uint8Array> {
    const known = pending.get(hash);
    if (known) return known;
    const loading = slot(async () => {
      fetches++;
      const content = await fetchVerified(fetchBlob, hash, bytes);
      keep(hash, content);
      return content;
    }).finally(() => pending.delete(hash));
    pending.set(hash, loading);
    return loading;
  }

  return {
    async get(hash, bytes) {
      const content = held.get(hash);
      if (!content) return load(hash, bytes);
      held.delete(hash);
      held.set(hash, content);
      return content;
    },
    prefetch(hash, bytes) {
      if (!held.has(hash)) load(hash, bytes).catch(() => {});
    },
    has: (hash) => held.has(hash),
    get bytesHeld() {
      return bytesHeld;
    },
    get fetches() {
      return fetches;
    },
  };
}

/** Fetches a blob and checks that it is what its name says; asks again when it is not. */
export async function fetchVerified(fetchBlob: FetchBlob, hash: Sha256, bytes?: number): Promise<Uint8Array> {
  let last: unknown;
  for (let attempt = 0; attempt < attempts; attempt++) {
    try {
      const content = await fetchBlob(hash, bytes);
      if (bytes !== undefined && content.byteLength !== bytes)
        fail("data_loss", `blob ${hash} came with ${content.byteLength} bytes, ${bytes} were promised`);
      if (sha256(content) !== hash) fail("data_loss", `blob ${hash} came with another content: its checksum fails`);
      return content;
    } catch (thrown) {
      last = thrown;
    }
  }
  throw DcnrError.from(last, "unavailable");
}
