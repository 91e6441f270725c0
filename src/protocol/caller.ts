// Who calls, as the connection knows it: the key that TLS has proved, and the network address. Nothing that a caller writes
// into a message is asked.

import type { KeyId } from "../core/ids.ts";
import type { NodeServerRequest } from "./http.ts";
import type { Caller } from "./network.ts";
import { holderAt } from "./tls.ts";

/** By connection: a certificate is read once, not once a call. */
const holders = new WeakMap<object, { readonly key: KeyId | undefined }>();

export function callerOf(request: NodeServerRequest): Caller {
  const address = plainAddress(request.socket?.remoteAddress ?? "unknown");
  // The socket of an HTTP/2 request is made anew for each look at it; its session stays.
  const connection = ("stream" in request ? request.stream.session : request.socket) ?? request.socket;
  let known = holders.get(connection);
  if (known === undefined) {
    known = { key: holderAt(request.socket) };
    holders.set(connection, known);
  }
  return known.key === undefined ? { address } : { id: known.key, address };
}

/** IPv4 addresses look like IPv6 ones on a socket that takes both. */
export function plainAddress(address: string): string {
  return address.startsWith("::ffff:") ? address.slice(7) : address;
}
