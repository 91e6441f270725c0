// How much a PNode may have uploaded without having recorded it: some times what its VNodes need, so that retries and
// several checkpoints under way have room, and no more than that however often it asks within a day. What was recorded
// counts no longer; what nobody records is deleted after a day (sessions/garbage.ts).

import { type BlobAllowance, blobAllowanceDefault } from "../../core/blobs.ts";
import { fail } from "../../core/errors.ts";
import type { PNodeId, Sha256 } from "../../core/ids.ts";
import type { Clock } from "../../core/world.ts";

interface Uploads {
  /** Oldest first. */
  readonly open: Map<Sha256, { readonly bytes: number; readonly atMs: number }>;
  bytes: number;
}

export class UploadAllowance {
  readonly #clock: Clock;
  readonly #forgottenMs: number;
  readonly #limits: BlobAllowance;
  readonly #uploads = new Map<PNodeId, Uploads>();

  /** `forgottenMs`: until what nobody recorded is deleted. */
  constructor(clock: Clock, forgottenMs: number, limits: BlobAllowance = blobAllowanceDefault) {
    this.#clock = clock;
    this.#forgottenMs = forgottenMs;
    this.#limits = limits;
  }

  /** Counts an upload that is about to be granted, or refuses it. `ownBytes`: what the PNode's VNodes need in memory. */
  take(pnode: PNodeId, hash: Sha256, bytes: number, ownBytes: number): void {
    const uploads = this.#uploads.get(pnode) ?? { open: new Map(), bytes: 0 };
    this.#uploads.set(pnode, uploads);
    this.#forget(uploads);
    const counted = Math.max(bytes, this.#limits.countedBytesLeast);
    const most = Math.max(this.#limits.unrecordedBytesLeast, this.#limits.unrecordedTimes * ownBytes);
    const known = uploads.open.get(hash);
    const next = uploads.bytes - (known?.bytes ?? 0) + counted;
    if (next > most)
      fail(
        "resource_exhausted",
        `PNode ${pnode} has uploaded ${uploads.bytes} bytes that it did not record, of ${most} that it may: record them, or wait for a day`,
      );
    uploads.open.delete(hash);
    uploads.open.set(hash, { bytes: counted, atMs: this.#clock.monotonicMs() });
    uploads.bytes = next;
  }

  /** A record names these now. */
  recorded(pnode: PNodeId, hashes: Iterable<Sha256>): void {
    const uploads = this.#uploads.get(pnode);
    if (uploads === undefined) return;
    for (const hash of hashes) this.#close(uploads, hash);
    this.#forget(uploads);
    if (uploads.open.size === 0) this.#uploads.delete(pnode);
  }

  /** For tests. */
  unrecordedBytes(pnode: PNodeId): number {
    return this.#uploads.get(pnode)?.bytes ?? 0;
  }

  #forget(uploads: Uploads): void {
    const beforeMs = this.#clock.monotonicMs() - this.#forgottenMs;
    for (const [hash, { atMs }] of uploads.open) {
      if (atMs > beforeMs) return;
      this.#close(uploads, hash);
    }
  }

  #close(uploads: Uploads, hash: Sha256): void {
    const known = uploads.open.get(hash);
    if (known === undefined) return;
    uploads.open.delete(hash);
    uploads.bytes -= known.bytes;
  }
}
