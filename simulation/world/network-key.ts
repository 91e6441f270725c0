// The key that all orchestrators of a simulated network show.

import { sha256 } from "../../src/core/hash.ts";
import type { KeyId } from "../../src/core/ids.ts";
import { type Identity, type KeyChecks, keyIdOf, type Verify } from "../../src/core/keys.ts";

const networkPublicKey = new TextEncoder().encode("the simulated network");
export const networkKey = keyIdOf(networkPublicKey);

const signatureOf = (publicKey: Uint8Array, content: Uint8Array) =>
  new TextEncoder().encode(sha256(publicKey, content));

/** Nobody in a simulated world forges: a hash does for a signature. */
export const networkIdentity: Identity = {
  id: networkKey,
  publicKey: networkPublicKey,
  sign: (content) => signatureOf(networkPublicKey, content),
};

export const verifySimulated: Verify = (publicKey, content, signature) =>
  Buffer.from(signatureOf(publicKey, content)).equals(signature);

/** A PNode's key is called as the PNode. */
export function pnodeIdentity(name: string): Identity {
  const publicKey = new TextEncoder().encode(name);
  return { id: name as KeyId, publicKey, sign: (content) => signatureOf(publicKey, content) };
}

export const keysSimulated: KeyChecks = {
  verify: verifySimulated,
  idOf: (publicKey) =>
    Buffer.from(networkPublicKey).equals(publicKey) ? networkKey : (new TextDecoder().decode(publicKey) as KeyId),
};
