// Immutable objects named by their SHA-256. A name never changes its content, so writes need no
// conditions, readers verify what they get, and pointers to blobs live in the StateStore.

import type { Sha256 } from "../core/ids.ts";
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

export interface BlobStore {
  /** Stores the bytes; fails with `data_loss` if they do not hash to the name. Storing twice is fine. */
  put(hash: Sha256, content: Uint8Array | AsyncIterable<Uint8Array>, bytes: number): Promise<void>;
  /** The bytes, verified when whole; `not_found` if there are none, `data_loss` if they are damaged. */
  get(hash: Sha256, range?: BlobRange): Promise<Uint8Array>;
  /** The bytes in pieces; the last piece comes only after the whole has been verified. */
  stream(hash: Sha256): AsyncIterable<Uint8Array>;
  /** The size, or undefined if it is not there. */
  size(hash: Sha256): Promise<number | undefined>;
  delete(hash: Sha256): Promise<void>;
  /** All names under the store, in no particular order. */
  list(): AsyncIterable<{ hash: Sha256; bytes: number }>;
  /** A short-lived address bound to action, name, size and time, usable without credentials. */
  grant(action: BlobAction, hash: Sha256, bytes: number, lifetimeMs: number): Promise<BlobGrant>;
  /** Present when grants point to the orchestrator's own port: `blobHttpHandler` serves them there. */
  readonly tokens?: BlobTokens;
  close(): Promise<void>;
}
