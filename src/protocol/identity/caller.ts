// Who calls, as the connection knows it: the key that TLS has proved, and the network address. Nothing that a caller writes
// into a message is asked.

import type { Caller } from "../network.ts";
import type { NodeServerRequest } from "../server/http.ts";
import type { Holder } from "./certificate.ts";
import { holderAt } from "./tls.ts";

/** By connection: a certificate is read once, not once a call. */
const holders = new WeakMap<object, { readonly holder: Holder | undefined }>();

/** By request: as the gate knows it. */
const admitted = new WeakMap<NodeServerRequest, Caller>();

/** From now on the request's caller is known as this. */
export function admitAs(request: NodeServerRequest, caller: Caller): void {
  admitted.set(request, caller);
}

export function callerOf(request: NodeServerRequest): Caller {
  return admitted.get(request) ?? connectedAs(request);
}

function connectedAs(request: NodeServerRequest): Caller {
  // The socket of an HTTP/2 request is made anew for each look at it; its session stays.
  const connection = ("stream" in request ? request.stream.session : request.socket) ?? request.socket;
  let known = holders.get(connection);
  if (known === undefined) {
    known = { holder: holderAt(request.socket) };
    holders.set(connection, known);
  }
  return callerBy(known.holder, request.socket);
}

/** The same for a connection on which nothing was asked yet. */
export function callerAt(socket: {
  readonly remoteAddress?: string | undefined;
  readonly remotePort?: number | undefined;
}): Caller {
  return callerBy(holderAt(socket), socket);
}

function callerBy(
  holder: Holder | undefined,
  {
    remoteAddress = "unknown",
    remotePort: port,
  }: { readonly remoteAddress?: string | undefined; readonly remotePort?: number | undefined } = {},
): Caller {
  const place = { address: plainAddress(remoteAddress), ...(port !== undefined && { port }) };
  if (holder === undefined) return place;
  return { id: holder.id, ...place, ...(holder.keys.length > 1 && { keys: holder.keys }) };
}

/** IPv4 addresses look like IPv6 ones on a socket that takes both. */
export function plainAddress(address: string): string {
  return address.startsWith("::ffff:") ? address.slice(7) : address;
}
