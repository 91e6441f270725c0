// Blobs in plain text.

import type { ClientRequestArgs } from "node:http";
import { connect, type LookupFunction } from "node:net";
import type { Tls } from "../../src/protocol/identity/tls.ts";
import type { Address } from "../../src/protocol/routes/address.ts";

export { pinnedFetch } from "../../src/protocol/identity/pinned-http.ts";

export function pinnedConnection(
  _tls: Tls,
  { host, port }: Pick<Address, "host" | "port" | "key">,
  lookup?: LookupFunction,
): NonNullable<ClientRequestArgs["createConnection"]> {
  return () => connect({ host, port, ...(lookup && { lookup }) });
}
