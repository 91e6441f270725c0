// Stores that live and die with the process: for tests, the simulator and `--store memory`. They keep the
// same promises as the durable ones, except durability.

import type { BlobSpaceName } from "../core/blobs.ts";
import { fail } from "../core/errors.ts";
import { sha256 } from "../core/hash.ts";
import type { Sha256 } from "../core/ids.ts";
import type { Clock } from "../core/world.ts";
import { checkBlobBytes, checkRange, collect, damagedUpload, missingBlob, slices } from "./blobs/blob-checks.ts";
import { type BlobRange, type BlobSpace, type BlobStore, spacesOf } from "./blobs/blob-store.ts";
import { BlobTokens } from "./blobs/blob-tokens.ts";
import { Hints } from "./records/hints.ts";
import { checkKey, checkValue, checkVersion, compareKeys, listRange, PageBuilder } from "./records/items.ts";
import type { ListPage, StateStore, StoredItem } from "./records/state-store.ts";

export function openMemoryStore(): StateStore {
  return new MemoryStore();
}

class MemoryStore implements StateStore {
  readonly #items = new Map<string, StoredItem>();
  /** The keys of #items in byte order. */
  readonly #keys: string[] = [];
  readonly #hints = new Hints();
  #closed = false;

  async get(key: string): Promise<StoredItem | undefined> {
    this.#check(key);
    return this.#items.get(key);
  }

  async put(key: string, value: string, expected: number): Promise<number | undefined> {
    this.#check(key);
    checkValue(key, value);
    checkVersion(key, expected);
    if ((this.#items.get(key)?.version ?? 0) !== expected) return undefined;
    if (expected === 0) this.#keys.splice(this.#position(key), 0, key);
    this.#items.set(key, { key, value, version: expected + 1 });
    this.#hints.changed([key]);
    return expected + 1;
  }

  async delete(key: string, expected: number): Promise<boolean> {
    this.#check(key);
    checkVersion(key, expected);
    const version = this.#items.get(key)?.version;
    if (version === undefined || version !== expected) return false;
    this.#keys.splice(this.#position(key), 1);
    this.#items.delete(key);
    this.#hints.changed([key]);
    return true;
  }

  async list(prefix: string, options?: { after?: string; limit?: number }): Promise<ListPage> {
    const { after, limit } = listRange(prefix, options);
    this.#checkOpen();
    const page = new PageBuilder(limit);
    const resumes = after !== undefined && compareKeys(after, prefix) >= 0;
    let position = this.#position(resumes ? after : prefix);
    if (resumes && this.#keys[position] === after) position++;
    for (; position < this.#keys.length; position++) {
      const key = this.#keys[position]!;
      if (!key.startsWith(prefix) || !page.add(this.#items.get(key)!)) break;
    }
    return page.page();
  }

  watch(prefix: string, onHint: (keys: readonly string[]) => void) {
    return this.#hints.watch(prefix, onHint);
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#hints.clear();
  }

  #check(key: string): void {
    checkKey(key);
    this.#checkOpen();
  }

  #checkOpen(): void {
    if (this.#closed) fail("failed_precondition", "the memory store is closed: open another");
  }

  /** Where the key is, or would be. */
  #position(key: string): number {
    let low = 0;
    let high = this.#keys.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (compareKeys(this.#keys[middle]!, key) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

export interface MemoryBlobOptions {
  /** Where grants point; the default serves tests that never leave the process. */
  readonly baseUrl?: () => string;
  /** Signs grants. Whoever serves them to others passes a secret one; the default is known to everybody. */
  readonly key?: Uint8Array;
  /** Without a clock, grants do not expire. */
  readonly clock?: Pick<Clock, "wallMs">;
}

export function openMemoryBlobs(options: MemoryBlobOptions = {}): BlobStore {
  const clock = options.clock ?? { wallMs: () => 0 };
  const tokens = new BlobTokens({
    key: options.key ?? new TextEncoder().encode("memory"),
    clock,
    baseUrl: options.baseUrl ?? (() => "http://memory.invalid"),
  });
  const spaces = spacesOf((name) => openSpace(name, tokens, clock));
  return { ...spaces, tokens, origins: () => tokens.origins(), close: async () => {} };
}

function openSpace(name: BlobSpaceName, tokens: BlobTokens, clock: Pick<Clock, "wallMs">): BlobSpace {
  const blobs = new Map<Sha256, { readonly content: Uint8Array; readonly modifiedWallMs: number }>();
  const within = (hash: Sha256, range?: BlobRange) => {
    const whole = blobs.get(hash)?.content ?? missingBlob(hash, "memory");
    if (range !== undefined) checkRange(hash, range, whole.length);
    return whole.subarray(range?.start, range?.end);
  };
  return {
    async put(hash, content, bytes) {
      checkBlobBytes(name, hash, bytes);
      const whole = await collect(content, bytes, hash);
      if (sha256(whole) !== hash) damagedUpload(hash, sha256(whole));
      blobs.set(hash, { content: whole, modifiedWallMs: clock.wallMs() });
    },
    async get(hash, range) {
      return within(hash, range).slice();
    },
    async *stream(hash, range) {
      for (const piece of slices(within(hash, range))) yield piece.slice();
    },
    async size(hash) {
      return blobs.get(hash)?.content.length;
    },
    async delete(hash) {
      blobs.delete(hash);
    },
    async *list() {
      for (const [hash, { content, modifiedWallMs }] of [...blobs])
        yield { hash, bytes: content.length, modifiedWallMs };
    },
    async grant(action, hash, bytes, lifetimeMs) {
      return tokens.grant(name, action, hash, bytes, lifetimeMs);
    },
  };
}
