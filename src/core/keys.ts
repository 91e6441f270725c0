// Who somebody is: the holder of an Ed25519 key. The id is a hash of the public key, so that nobody can use an id without
// being able to sign for it, and nobody has to hand ids out.

import { createHash } from "node:crypto";
import type { KeyId } from "./ids.ts";

/** A key of one's own. The private half never leaves whoever made it. */
export interface Identity {
  readonly id: KeyId;
  /** DER of SubjectPublicKeyInfo, which names the algorithm too. */
  readonly publicKey: Uint8Array;
  sign(content: Uint8Array): Uint8Array;
}

/** Judges signatures of others; false also for keys that cannot be read. */
export type Verify = (publicKey: Uint8Array, content: Uint8Array, signature: Uint8Array) => boolean;

/** Base32 of SHA-256 without padding: 52 letters and digits that are hard to mistake for each other. */
export function keyIdOf(publicKey: Uint8Array): KeyId {
  return base32(createHash("sha256").update(publicKey).digest()) as KeyId;
}

const keyIdPattern = /^[a-z2-7]{52}$/;

export function isKeyId(text: string): text is KeyId {
  return keyIdPattern.test(text);
}

/** For people, who compare the beginning. */
export function shortKeyId(id: string): string {
  return id.slice(0, 10);
}

const alphabet = "abcdefghijklmnopqrstuvwxyz234567";

export function base32(bytes: Uint8Array): string {
  let text = "";
  let bits = 0;
  let value = 0;
  for (const byte of bytes) {
    value = (value << 8) | byte;
    bits += 8;
    for (; bits >= 5; bits -= 5) text += alphabet[(value >>> (bits - 5)) & 31];
    value &= (1 << bits) - 1;
  }
  return bits > 0 ? text + alphabet[(value << (5 - bits)) & 31] : text;
}
