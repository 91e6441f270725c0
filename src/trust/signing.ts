// Signatures of machines about what they computed. Who signs is told by the id of the key; how keys work is injected, so that
// the simulator signs cheaply.

import type { KeyId } from "../core/ids.ts";

/** One's own key, and judgement of others'. Browsers take their time for either. */
export interface Signing {
  readonly id: KeyId;
  readonly publicKey: Uint8Array;
  sign(content: Uint8Array): Uint8Array | Promise<Uint8Array>;
  readonly verify: JudgeBy;
}

/** Whether the holder of the id signed it; false also for a public key that is not the id's. */
export type VerifyBy = (id: string, publicKey: Uint8Array, content: Uint8Array, signature: Uint8Array) => boolean;

/** The same, perhaps later. */
export type JudgeBy = (...given: Parameters<VerifyBy>) => boolean | Promise<boolean>;
