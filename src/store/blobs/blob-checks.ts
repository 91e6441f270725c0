// The refusals and small checks that all blob backends share, so that they fail with the same codes and sentences.

import { createHash } from "node:crypto";
import { type BlobSpaceName, blobBytesMax } from "../../core/blobs.ts";
import { fail } from "../../core/errors.ts";
import type { Sha256 } from "../../core/ids.ts";
import type { BlobRange } from "./blob-store.ts";

/** Read and sent at a time. A download holds two of them, so that all that one address may have at once fit into its share. */
export const pieceBytes = 64 << 10;

export function checkBlobBytes(space: BlobSpaceName, hash: Sha256, bytes: number): void {
  if (!Number.isSafeInteger(bytes) || bytes < 0)
    fail("invalid_argument", `the size ${bytes} of blob ${hash} is not a whole number from 0 on`);
  if (bytes > blobBytesMax[space])
    fail(
      "invalid_argument",
      `blob ${hash} has ${bytes} bytes, at most ${blobBytesMax[space]} are allowed among ${space}: split it`,
    );
}

export function checkRange(hash: Sha256, range: BlobRange, bytes: number): void {
  const { start, end } = range;
  if (!Number.isSafeInteger(start) || !Number.isSafeInteger(end) || start < 0 || start > end || end > bytes)
    fail("out_of_range", `bytes ${start} to ${end} are not within blob ${hash}, which has ${bytes}`);
}

export function missingBlob(hash: Sha256, where: string): never {
  fail("not_found", `blob ${hash} is not in ${where}: upload it again or restore it from a copy`);
}

export function damagedBlob(hash: Sha256, where: string, actual: string): never {
  fail(
    "data_loss",
    `blob ${hash} is damaged: ${where} hashes to ${actual}; upload it again (that replaces it) or restore it from a copy`,
  );
}

export function damagedUpload(hash: Sha256, actual: string): never {
  fail("data_loss", `what was sent as blob ${hash} hashes to ${actual}: nothing was stored, send it again`);
}

export function wrongSize(hash: Sha256, expected: number, actual: number | string): never {
  fail(
    "data_loss",
    `blob ${hash} was announced with ${expected} bytes but has ${actual}: nothing was stored, send it again`,
  );
}

/** The pieces of a content that never exceed and in the end are exactly `bytes`. */
export async function* exactly(
  content: Uint8Array | AsyncIterable<Uint8Array>,
  bytes: number,
  hash: Sha256,
): AsyncGenerator<Uint8Array> {
  let seen = 0;
  for await (const piece of content instanceof Uint8Array ? slices(content) : content) {
    seen += piece.length;
    if (seen > bytes) wrongSize(hash, bytes, `${seen} or more`);
    yield piece;
  }
  if (seen !== bytes) wrongSize(hash, bytes, seen);
}

/** Hashing and writing a large content in one go would hold up everything else in the process. */
export function* slices(content: Uint8Array): Generator<Uint8Array> {
  for (let start = 0; start < content.length; start += pieceBytes) yield content.subarray(start, start + pieceBytes);
}

/** Passes pieces on as they come, the last one only when all of them together have the name's hash. */
export async function* verified(
  pieces: AsyncIterable<Uint8Array>,
  hash: Sha256,
  where: string,
): AsyncGenerator<Uint8Array> {
  const digest = createHash("sha256");
  let held: Uint8Array | undefined;
  for await (const piece of pieces) {
    digest.update(piece);
    if (held) yield held;
    held = piece;
  }
  const actual = digest.digest("hex");
  if (actual !== hash) damagedBlob(hash, where, actual);
  if (held) yield held;
}

export async function collect(
  content: Uint8Array | AsyncIterable<Uint8Array>,
  bytes: number,
  hash: Sha256,
): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  for await (const piece of exactly(content, bytes, hash)) pieces.push(piece);
  // A copy, since the caller may reuse its buffer.
  return new Uint8Array(Buffer.concat(pieces));
}
