// Signatures in simulated worlds: a hash that only the world can make, so that seeds stay cheap. Whoever lies here has no
// other keys than its own, as outside.

import { sha256 } from "../../src/core/hash.ts";
import type { KeyId } from "../../src/core/ids.ts";
import type { Signing, VerifyBy } from "../../src/trust/signing.ts";

const secret = "the simulated world's";

const signatureOf = (id: string, content: Uint8Array) => Buffer.from(sha256(secret, id, content).slice(0, 32), "hex");

export const verifyStatement: VerifyBy = (id, publicKey, content, signature) =>
  new TextDecoder().decode(publicKey) === id && signatureOf(id, content).equals(signature);

export function signAs(name: string) {
  return {
    id: name as KeyId,
    publicKey: new TextEncoder().encode(name),
    sign: (content: Uint8Array) => signatureOf(name, content),
    verify: verifyStatement,
  } satisfies Signing;
}
