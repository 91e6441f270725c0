// SHA-256 on the system's own threads: a part of a state takes some 40 ms, in which this thread sends heartbeats.

import { createHash, subtle } from "node:crypto";
import { setImmediate as othersTurn } from "node:timers/promises";
import type { Digest } from "../core/hash.ts";
import { sha256 } from "../core/hash.ts";
import type { Sha256 } from "../core/ids.ts";

/** Hashed at a time: less than a millisecond, in which nobody else has a turn. */
const sliceBytes = 256 << 10;

/**
 * On this thread, slice by slice, without a copy: for what was received. Copies of parts would leave holes in the C library's heap that stay with
 * the process, more than a small model takes.
 */
export const digestInSlices: Digest = async (content) => {
  const hash = createHash("sha256");
  for (let at = 0; at < content.byteLength; at += sliceBytes) {
    if (at > 0) await othersTurn();
    hash.update(content.subarray(at, at + sliceBytes));
  }
  return hash.digest("hex") as Sha256;
};

/** Below it, handing the work over costs more than the work. */
const ownThreadBytesMax = 64 << 10;

export const digestAside: Digest = async (content) => {
  if (content.byteLength <= ownThreadBytesMax) return sha256(content);
  // The system copies what it hashes, and takes no memory that other threads may write to.
  const plain = content.buffer instanceof SharedArrayBuffer ? new Uint8Array(content) : content;
  const digest = await subtle.digest("SHA-256", plain as Uint8Array<ArrayBuffer>);
  return Buffer.from(digest).toString("hex") as Sha256;
};
