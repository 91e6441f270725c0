// Immutable objects named by their SHA-256, in name spaces that know nothing of each other. A name never changes its
// content, so writes need no conditions, readers verify what they get, and pointers to blobs live in the StateStore.

import { type BlobSpaceName, blobSpaceNames } from "../../core/blobs.ts";
import type { Sha256 } from "../../core/ids.ts";
import type { BlobTokens } from "./blob-tokens.ts";

export interface BlobRange {
  readonly start: number;
  /** Exclusive. */
  readonly end: number;
}

export interface BlobGrant {
  readonly url: string;
  readonly method: "PUT" | "GET";
  readonly headers: Readonly<Record<string, string>>;
  readonly expiresWallMs: number;
}

export type BlobAction = "upload" | "download";

/** One name space. What is written, deleted or granted in one is not seen in any other. */
export interface BlobSpace {
  /** Stores the bytes; fails with `data_loss` if they do not hash to the name. Storing twice is fine. */
  put(hash: Sha256, content: Uint8Array | AsyncIterable<Uint8Array>, bytes: number): Promise<void>;
  /** The bytes, verified when whole; `not_found` if there are none, `data_loss` if they are damaged. */
  get(hash: Sha256, range?: BlobRange): Promise<Uint8Array>;
  /**
   * The bytes in pieces, each read when it is asked for; the last piece comes only after the whole has been verified. Of a range
   * nothing is.
   */
  stream(hash: Sha256, range?: BlobRange): AsyncIterable<Uint8Array>;
  /** The size, or undefined if it is not there. */
  size(hash: Sha256): Promise<number | undefined>;
  delete(hash: Sha256): Promise<void>;
  /** All names in the space, in no particular order, with the time of their last upload. */
  list(): AsyncIterable<StoredBlob>;
  /** A short-lived address bound to action, name space, name, size and time, usable without credentials. */
  grant(action: BlobAction, hash: Sha256, bytes: number, lifetimeMs: number): Promise<BlobGrant>;
}

export interface StoredBlob {
  readonly hash: Sha256;
  readonly bytes: number;
  readonly modifiedWallMs: number;
}

export interface BlobStore extends Readonly<Record<BlobSpaceName, BlobSpace>> {
  /** Where grants lead, as "https://host:port": what their holders may be told beforehand. */
  origins(): readonly string[];
  /** Present when grants point to the orchestrator's own port: `blobHttpHandler` serves them there. */
  readonly tokens?: BlobTokens;
  close(): Promise<void>;
}

/** Makes every name space alike. */
export function spacesOf<Space extends BlobSpace>(open: (name: BlobSpaceName) => Space): Record<BlobSpaceName, Space> {
  return Object.fromEntries(blobSpaceNames.map((name) => [name, open(name)])) as Record<BlobSpaceName, Space>;
}
