// Who somebody is: the holder of an Ed25519 key. The id is a hash of the public key, so that nobody can use an id without
// being able to sign for it, and nobody has to hand ids out.

import { bytesOfHex, bytesOfText, joinBytes } from "./bytes.ts";
import { fail } from "./errors.ts";
import { sha256 } from "./hash.ts";
import { nodeCrypto } from "./hashing/node-crypto.ts";
import type { KeyId } from "./ids.ts";

/** A key of one's own. The private half never leaves whoever made it. */
export interface Identity {
  /** Of the first key, if there were others before this one: whoever is known by an id keeps it. */
  readonly id: KeyId;
  /** DER of SubjectPublicKeyInfo, which names the algorithm too. */
  readonly publicKey: Uint8Array;
  /** Earlier keys, the first one first, each with its word for the next. Absent: this is the first. */
  readonly former?: readonly Succession[];
  sign(content: Uint8Array): Uint8Array;
}

/** An identity whose private key the TLS library may have. */
export interface TlsIdentity extends Identity {
  /** PKCS #8 as PEM. */
  readonly privateKey: string;
}

/** A key that was replaced, and its signature that says by which. */
export interface Succession {
  readonly publicKey: Uint8Array;
  readonly signature: Uint8Array;
}

/** Whoever needs more has other troubles; strangers make us verify as many. */
export const successionsMax = 16;
/** SubjectPublicKeyInfo of an Ed25519 key, and its signatures. */
export const publicKeyBytes = 44;
export const signatureBytes = 64;

/** What a key signs to be succeeded by another one in speaking for the id. */
export function successionStatement(id: KeyId, next: Uint8Array): Uint8Array {
  return joinBytes([bytesOfText(`dcnr key succession 1\n${id}\n`), next]);
}

/** The ids of all keys from the first to the present one; undefined if one of them has not signed for the next. */
export function keysOf(
  publicKey: Uint8Array,
  former: readonly Succession[] = [],
  { verify: isSigned, idOf }: KeyChecks = { verify: verifySignature, idOf: keyIdOf },
): readonly KeyId[] | undefined {
  if (former.length > successionsMax) return undefined;
  const first = idOf(former[0]?.publicKey ?? publicKey);
  const signed = former.every((key, index) => {
    const next = former[index + 1]?.publicKey ?? publicKey;
    return isSigned(key.publicKey, successionStatement(first, next), key.signature);
  });
  return signed ? [...former.map((key) => idOf(key.publicKey)), idOf(publicKey)] : undefined;
}

export type Verify = (publicKey: Uint8Array, content: Uint8Array, signature: Uint8Array) => boolean;

/** How keys are judged: others than these in the simulator. */
export interface KeyChecks {
  readonly verify: Verify;
  /** A key's id. */
  readonly idOf: (publicKey: Uint8Array) => KeyId;
}

/** Judges signatures of others; false also for keys that cannot be read. Browsers do it in their own time: src/tab. */
export function verifySignature(publicKey: Uint8Array, content: Uint8Array, signature: Uint8Array): boolean {
  if (nodeCrypto === undefined) fail("unimplemented", "signatures cannot be judged at once in a browser");
  const { createPublicKey, verify } = nodeCrypto;
  try {
    const key = createPublicKey({ key: Buffer.from(publicKey), format: "der", type: "spki" });
    return key.asymmetricKeyType === "ed25519" && verify(null, content, key, signature);
  } catch {
    return false;
  }
}

/** Base32 of SHA-256 without padding: 52 letters and digits that are hard to mistake for each other. */
export function keyIdOf(publicKey: Uint8Array): KeyId {
  return base32(bytesOfHex(sha256(publicKey))) as KeyId;
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
