// Plain HTTP requests to whoever holds a key: what fetch does for the web, for addresses that no authority vouches for.
// Nothing of a request is written before the other end has proved its key.

import type { ClientRequestArgs } from "node:http";
import type { LookupFunction } from "node:net";
import { Readable } from "node:stream";
import type { ReadableStream as NodeReadableStream } from "node:stream/web";
import { type Address, formatAddress, parseAddress } from "../routes/address.ts";
import type { Tls } from "./tls.ts";

type Connect = NonNullable<ClientRequestArgs["createConnection"]>;

/** For Node's requests: the connection is theirs once it is the right one. */
export function pinnedConnection(
  tls: Tls,
  place: Pick<Address, "host" | "port" | "key">,
  lookup?: LookupFunction,
): Connect {
  return (_options, created) => {
    const socket = tls.dial(place, lookup);
    socket.once("secureConnect", () => created(null, socket));
    socket.once("error", (error) => created(error, socket));
    return undefined;
  };
}

interface PinnedRequest {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
}

export async function pinnedFetch(
  tls: Tls,
  address: string,
  path: string,
  init: PinnedRequest = {},
): Promise<Response> {
  // Not before it is needed: with it Node loads its own web client, a tenth of what starting a command takes.
  const { request: httpRequest } = await import("node:http");
  const place = parseAddress(address);
  const { method = "GET", headers = {}, body } = init;
  return new Promise((resolve, reject) => {
    const request = httpRequest({
      ...{ method, path, createConnection: pinnedConnection(tls, place) },
      headers: {
        host: formatAddress(place.host, place.port),
        connection: "close",
        ...headers,
        ...(body && { "content-length": String(body.byteLength) }),
      },
    });
    request.once("error", reject);
    request.once("response", (answer) => {
      const { statusCode = 500 } = answer;
      const given = Object.entries(answer.headers).map(([name, value]): [string, string] => [name, String(value)]);
      const isEmpty = statusCode === 204 || statusCode === 304;
      const content = isEmpty ? null : (Readable.toWeb(answer) as NodeReadableStream<Uint8Array>);
      resolve(new Response(content as ReadableStream<Uint8Array> | null, { status: statusCode, headers: given }));
    });
    request.end(body);
  });
}
