// The signature under one message from machine to machine: within this life of the VNode, this is the content of this name.
// A life computes nothing twice, so two contents under one name and life prove by themselves that their signer lied; a
// machine that starts again has a new life, and may have been mended. Signatures name no epoch and no receiver: an equation
// of a pure function harms nobody, whoever repeats it.

export interface DeliveryClaims {
  readonly session: string;
  /** The sending VNode. */
  readonly vnode: string;
  readonly life: string;
  /** Of the message (vnode/names.ts `keyOf`). */
  readonly key: string;
  readonly hash: string;
}

export function deliveryContent({ session, vnode, life, key, hash }: DeliveryClaims): Uint8Array {
  return new TextEncoder().encode(["dcnr delivery 1", session, vnode, life, key, hash].join("\n"));
}
