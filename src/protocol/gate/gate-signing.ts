// What a gate signs for the PNode behind it: the daily work of a PNode, each kind known by the words that its content begins with. Whoever
// takes the PNode's process over can lie about its work while it is there, and what it had signed then stays signed; it cannot have certificates,
// successions of keys or sealed lines signed, so nobody who comes to others later without the gate passes for the machine.

import { fail } from "../../core/errors.ts";

/** Beginnings of what is signed, and how long it may be. */
const kinds: Readonly<Record<string, { readonly begins: string; readonly bytesMax: number }>> = {
  /** trust/statement.ts */
  statement: { begins: "dcnr statement 1\n", bytesMax: 8 << 20 },
  /** trust/delivery.ts */
  delivery: { begins: "dcnr delivery 1\n", bytesMax: 8 << 10 },
  /** membership/records.ts */
  member: { begins: "dcnr member record\n", bytesMax: 4 << 10 },
};

export const signedBytesMax = Math.max(...Object.values(kinds).map(({ bytesMax }) => bytesMax));

/** Fails for what is none of a PNode's daily work. */
export function checkSignable(content: Uint8Array): void {
  const isKnown = Object.values(kinds).some(({ begins, bytesMax }) => {
    const beginning = Buffer.from(begins, "latin1");
    return content.byteLength <= bytesMax && beginning.equals(content.subarray(0, beginning.byteLength));
  });
  if (!isKnown)
    fail("permission_denied", "the gate signs statements, deliveries and records of members, and nothing else");
}
