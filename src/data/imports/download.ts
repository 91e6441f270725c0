// Downloads over https with every step checked: scheme, address (also the one a host name leads to at the
// moment of connecting), each redirect, and size. How bytes travel is injected; the rules are here.

import { isIP } from "node:net";
import { fail } from "../../core/errors.ts";
import { isPublicAddress } from "../../core/internet.ts";

export interface HttpAnswer {
  readonly status: number;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly body: AsyncIterable<Uint8Array>;
  /** Ends the transfer when the body is not wanted. */
  cancel(): void;
}

export interface HttpRequest {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  /**
   * Must be called with the numeric address before connecting to it, and that address must be used: a name that is
   * looked up twice may lead elsewhere the second time. Throws if the address is not allowed.
   */
  readonly checkAddress: (address: string) => void;
}

/** One GET that follows no redirects. */
export type HttpGet = (request: HttpRequest) => Promise<HttpAnswer>;

export interface DownloadOptions {
  readonly get: HttpGet;
  readonly bytesMax: number;
  /** For tests against a server on this machine only. */
  readonly isAllowedAddress?: (address: string) => boolean;
}

export interface Download {
  /** Of the whole file; undefined if the server does not say. */
  readonly bytes: number | undefined;
  /** Changes when the file does; empty if the server does not say. */
  readonly tag: string;
  readonly body: AsyncIterable<Uint8Array>;
}

const redirectsMax = 5;

/** Starts a download at byte `from`. With `tag`, goes on with the same file or fails. */
export async function download(
  address: string,
  from: number,
  tag: string,
  options: DownloadOptions,
): Promise<Download> {
  let url = checkUrl(address, options);
  for (let redirects = 0; redirects <= redirectsMax; redirects++) {
    const answer = await options.get({ url, headers: rangeHeaders(from), checkAddress: addressCheck(url, options) });
    if (answer.status < 300 || answer.status >= 400) return accept(url, answer, from, tag, options);
    answer.cancel();
    const location = answer.headers["location"];
    if (!location) fail("unavailable", `${url.host} answered with status ${answer.status} and no new location`);
    url = checkUrl(new URL(location, url).href, options);
  }
  fail("unavailable", `${address} redirects more than ${redirectsMax} times`);
}

function rangeHeaders(from: number): Record<string, string> {
  // Compressed answers would make byte positions meaningless.
  return { "accept-encoding": "identity", ...(from > 0 ? { range: `bytes=${from}-` } : {}) };
}

function checkUrl(text: string, options: DownloadOptions): URL {
  if (!URL.canParse(text)) fail("invalid_argument", `"${text.slice(0, 200)}" is not an address`);
  const url = new URL(text);
  if (url.protocol !== "https:")
    fail("permission_denied", `${url.protocol}//${url.host} is not fetched: only https is`);
  if (url.username || url.password)
    fail("invalid_argument", `${url.host}: addresses with passwords in them are not fetched`);
  const host = url.hostname.replace(/^\[|\]$/g, "");
  if (isIP(host)) addressCheck(url, options)(host);
  return url;
}

function addressCheck(url: URL, { isAllowedAddress = isPublicAddress }: DownloadOptions): (address: string) => void {
  return (address) => {
    if (!isAllowedAddress(address))
      fail("permission_denied", `${url.host} leads to ${address}, which is not a public address: it is not fetched`);
  };
}

function accept(url: URL, answer: HttpAnswer, from: number, tag: string, options: DownloadOptions): Download {
  const refuse = (code: Parameters<typeof fail>[0], message: string): never => {
    answer.cancel();
    return fail(code, message);
  };
  if (answer.status === 404) refuse("not_found", `${url.href} does not exist`);
  if (answer.status !== 200 && answer.status !== 206)
    refuse("unavailable", `${url.host} answered with status ${answer.status}`);
  const partial = answer.status === 206;
  if (partial && !answer.headers["content-range"]?.startsWith(`bytes ${from}-`))
    refuse("unavailable", `${url.host} sent another part of the file than byte ${from} on`);
  const found = answer.headers["etag"] ?? answer.headers["last-modified"] ?? "";
  if (tag !== "" && found !== tag)
    refuse("failed_precondition", `${url.href} has changed since the download began: start again`);
  const length = Number(answer.headers["content-length"] ?? Number.NaN);
  const bytes = Number.isSafeInteger(length) ? length + (partial ? from : 0) : undefined;
  if (bytes !== undefined && bytes > options.bytesMax)
    refuse("resource_exhausted", `${url.href} has ${bytes} bytes, at most ${options.bytesMax} are allowed`);
  return { bytes, tag: found, body: limited(answer, partial ? 0 : from, options.bytesMax - (partial ? from : 0), url) };
}

/** Leaves out the bytes we have, and stops a server that sends more than it may. */
async function* limited(answer: HttpAnswer, skip: number, bytesMax: number, url: URL): AsyncGenerator<Uint8Array> {
  let seen = 0;
  try {
    for await (const piece of answer.body) {
      const start = Math.max(0, skip - seen);
      seen += piece.byteLength;
      if (seen > bytesMax) fail("resource_exhausted", `${url.href} sends more than the allowed ${bytesMax} bytes`);
      if (start < piece.byteLength) yield piece.subarray(start);
    }
  } finally {
    answer.cancel();
  }
}
