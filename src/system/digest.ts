// SHA-256 on the system's own threads: a part of a state takes some 40 ms, in which this thread sends heartbeats.

import { subtle } from "node:crypto";
import type { Digest } from "../core/hash.ts";
import { sha256 } from "../core/hash.ts";
import type { Sha256 } from "../core/ids.ts";

/** Below it, handing the work over costs more than the work. */
const ownThreadBytesMax = 64 << 10;

export const digestAside: Digest = async (content) => {
  if (content.byteLength <= ownThreadBytesMax) return sha256(content);
  // The system copies what it hashes, and takes no memory that other threads may write to.
  const plain = content.buffer instanceof SharedArrayBuffer ? new Uint8Array(content) : content;
  const digest = await subtle.digest("SHA-256", plain as Uint8Array<ArrayBuffer>);
  return Buffer.from(digest).toString("hex") as Sha256;
};
