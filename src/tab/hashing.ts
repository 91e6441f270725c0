// SHA-256 in the browser's own time: its library uses the processor's instructions for it and another thread, so that states and messages
// are hashed while others are on their way. Ours in WebAssembly is done first where there is little to hash.

import { hexOf } from "../core/bytes.ts";
import { type ContentHash, type Digest, hashOfContent, sha256, wholeContent } from "../core/hash.ts";
import type { Sha256 } from "../core/ids.ts";

/** Below it, ours is done before the browser's has begun. */
const aloneBytesMin = 32 << 10;

/** Shared memory has to be copied for it. */
export const digestOfWeb: Digest = async (content) =>
  content.byteLength < aloneBytesMin ? sha256(content) : digestOf(new Uint8Array(content));

export const hashOfWeb: ContentHash = (content) =>
  content.bytes.byteLength < aloneBytesMin ? hashOfContent(content) : digestOf(wholeContent(content));

async function digestOf(own: Uint8Array<ArrayBuffer>): Promise<Sha256> {
  return hexOf(new Uint8Array(await crypto.subtle.digest("SHA-256", own))) as Sha256;
}
