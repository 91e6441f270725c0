// Which addresses a process of Node calls over sockets, and how it comes to a line there whose other end has proved its key.

import { DcnrError, fail } from "../../core/errors.ts";
import type { Tls } from "../identity/tls.ts";
import { type Address, isSocketAddress, keyOf, parseAddress, withoutKey } from "../routes/address.ts";
import type { Line } from "../routes/line.ts";
import type { Reach } from "../routes/reach.ts";
import { isRelayed, parseRoute, type RelayedRoute, shownRoute } from "../routes/routes.ts";
import { sealCalling } from "./sealed-line.ts";
import { connectWebSocket } from "./socket-client.ts";

export interface SocketLinesOptions {
  readonly through: (route: RelayedRoute, signal: AbortSignal) => Line;
  readonly tls: Tls;
  readonly reach: Reach | undefined;
}

/** WebSockets, and machines that wait at relays and speak no TLS. `web`: whoever is known by a key, unless a relay leads there. */
export function isBySocket(address: string, web = false): boolean {
  if (!isRelayed(address)) return isSocketAddress(address) || (web && keyOf(address) !== undefined);
  const route = parseRoute(withoutKey(address));
  return route.kind === "relayed" && route.sealed === true;
}

export function socketLines({ through, tls, reach }: SocketLinesOptions) {
  return async (address: string, signal: AbortSignal): Promise<Line> => {
    const key = keyOf(address);
    const line = await (isRelayed(address)
      ? through(relayedAt(address), signal)
      : connectWebSocket(placeOf(address), reach, signal));
    if (key === undefined) return line;
    try {
      return await sealCalling(line, tls.signer, (holder) => tls.keys.follows(key, holder.keys));
    } catch (error) {
      line.close();
      const { code, message } = DcnrError.from(error, "unavailable");
      throw new DcnrError(code, `${shownRoute(address)}: ${message}`);
    }
  };
}

/** Where nothing is said of it, inside TLS. */
function placeOf(address: string): Address {
  const place = parseAddress(address);
  return place.socket ? place : { ...place, secure: true };
}

function relayedAt(address: string): RelayedRoute {
  const route = parseRoute(withoutKey(address));
  if (route.kind !== "relayed" || keyOf(address) === undefined)
    fail("failed_precondition", `${shownRoute(address)}: only who knows the key that answers may call there`);
  return route;
}
