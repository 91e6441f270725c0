// GET over https without following redirects, for guarded downloads (data/imports/download.ts): the address that the
// caller's check has seen is the address that is connected to, so that a name cannot change in between.

import { lookup } from "node:dns";
import { get } from "node:https";
import { isIP } from "node:net";
import { fail, messageOf } from "../../core/errors.ts";

export interface HttpsRequest {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly checkAddress: (address: string) => void;
}

export interface HttpsAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly body: AsyncIterable<Uint8Array>;
  cancel(): void;
}

/** A server that says nothing for so long is gone. */
const silenceMs = 30_000;

/** `authority`: the certificate to trust instead of the system's, for servers with one of their own. */
export function httpsGet({ url, headers, checkAddress }: HttpsRequest, authority?: string): Promise<HttpsAnswer> {
  return new Promise((resolve, reject) => {
    const host = url.hostname.replace(/^\[|\]$/g, "");
    if (isIP(host)) checkAddress(host);
    const request = get(url, {
      headers,
      ...(authority === undefined ? {} : { ca: authority }),
      // No connection of someone else's check is used again.
      agent: false,
      timeout: silenceMs,
      lookup: (name, options, callback) => {
        lookup(name, { ...options, all: true }, (error, addresses) => {
          try {
            if (error) throw error;
            for (const { address } of addresses) checkAddress(address);
            const [first] = addresses;
            if (!first) fail("unavailable", `${name} has no address`);
            if (options.all) callback(null, addresses);
            else callback(null, first.address, first.family);
          } catch (thrown) {
            callback(thrown as NodeJS.ErrnoException, "", 0);
          }
        });
      },
    });
    request.on("timeout", () => request.destroy(new Error(`${url.host} was silent for ${silenceMs / 1000} s`)));
    request.on("error", (thrown) => reject(asUnavailable(thrown, url)));
    request.on("response", (response) => {
      const flat = Object.entries(response.headers).map(([name, value]) => [
        name,
        Array.isArray(value) ? value.join(", ") : value,
      ]);
      resolve({
        status: response.statusCode ?? 0,
        headers: Object.fromEntries(flat) as Record<string, string | undefined>,
        body: response,
        cancel: () => request.destroy(),
      });
    });
  });
}

function asUnavailable(thrown: Error, url: URL): unknown {
  if (thrown.name === "DcnrError") return thrown;
  try {
    fail("unavailable", `${url.host} cannot be reached: ${messageOf(thrown)}`, thrown);
  } catch (error) {
    return error;
  }
}
