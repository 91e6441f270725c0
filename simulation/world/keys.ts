// Keys of the simulated world: as cheap as a hash, and as hard to forge for code that does not look in here.

import { sha256 } from "../../src/core/hash.ts";
import type { KeyId } from "../../src/core/ids.ts";
import type { Identity, Verify } from "../../src/core/keys.ts";

const text = new TextEncoder();

/** A host's key is called as the host. */
export function simulatedIdentity(name: string): Identity {
  const publicKey = text.encode(name);
  return { id: name as KeyId, publicKey, sign: (content) => signatureOf(publicKey, content) };
}

export const simulatedKeys: { readonly verify: Verify; readonly idOf: (publicKey: Uint8Array) => KeyId } = {
  verify: (publicKey, content, signature) => Buffer.compare(signatureOf(publicKey, content), signature) === 0,
  idOf: (publicKey) => new TextDecoder().decode(publicKey) as KeyId,
};

/** As long as a real one. */
function signatureOf(publicKey: Uint8Array, content: Uint8Array): Uint8Array {
  return Buffer.from(sha256("the secret of ", publicKey, content), "latin1");
}
