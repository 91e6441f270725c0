// Serves the dashboard and the page by which browsers join, each one page and its assets, all from memory, with headers that let a browser load nothing else.
// What the files are and where they come from is the caller's business; a path that is not ours goes to the next handler.

import { promisify } from "node:util";
import { brotliCompress, constants, gzip } from "node:zlib";
import type { HttpHandler } from "../protocol/network.ts";
import type { DashboardFile, DashboardFiles } from "./files.ts";

type Encoding = "br" | "gzip" | "identity";

/** Smaller than a packet: compressing gains nothing. */
const compressBytesMin = 1_024;
/** Half the time of the best, two percent larger. */
const brotliQuality = 9;

const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
];

const securityHeaders = {
  "content-security-policy": policy.join("; "),
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
};

/** Pages that compute: WebAssembly made on the spot, workers of our own, and memory that these share, for which nothing foreign may be near. */
const computingHeaders = {
  "content-security-policy": [
    ...policy.map((rule) => (rule.startsWith("script-src") ? `${rule} 'wasm-unsafe-eval'` : rule)),
    "worker-src 'self'",
  ].join("; "),
  "cross-origin-embedder-policy": "require-corp",
};

/** The page by which browsers lend their machines, and its workers, who are judged by their own headers. */
function computes(path: string): boolean {
  return path === "/join" || path.startsWith("/assets/tab-");
}

export function dashboardHandler(load: () => Promise<DashboardFiles>): HttpHandler {
  let files: Promise<DashboardFiles> | undefined;
  const loaded = () => {
    // A failed load is tried again by the next request.
    files ??= load().catch((error: unknown) => {
      files = undefined;
      throw error;
    });
    return files;
  };
  const compressed = new Map<string, Promise<Uint8Array>>();
  return async (request) => {
    if (request.method !== "GET" && request.method !== "HEAD") return undefined;
    const path = new URL(request.url).pathname;
    if (!isOurs(path)) return undefined;
    const file = (await loaded()).get(path === "/index.html" ? "/" : path);
    if (!file) return undefined;
    const security = { ...securityHeaders, ...(computes(path) && computingHeaders) };
    const headers = new Headers({ ...security, etag: file.etag, vary: "accept-encoding" });
    headers.set("cache-control", path.startsWith("/assets/") ? "public, max-age=31536000, immutable" : "no-cache");
    if (matches(request.headers.get("if-none-match"), file.etag)) return new Response(null, { status: 304, headers });
    const encoding = file.bytes.byteLength < compressBytesMin ? "identity" : chosenEncoding(request);
    const body = await encoded(compressed, path, file, encoding);
    headers.set("content-type", file.type);
    headers.set("content-length", String(body.byteLength));
    if (encoding !== "identity") headers.set("content-encoding", encoding);
    return new Response(request.method === "HEAD" ? null : (body as Uint8Array<ArrayBuffer>), { headers });
  };
}

/** Asked before loading: requests for blobs and metrics must not build the page. */
function isOurs(path: string): boolean {
  return path === "/" || path === "/index.html" || path === "/join" || path.startsWith("/assets/");
}

function matches(wanted: string | null, etag: string): boolean {
  return wanted?.split(",").some((one) => one.trim().replace(/^W\//, "") === etag) ?? false;
}

function chosenEncoding(request: Request): Encoding {
  const accepted = new Set(
    (request.headers.get("accept-encoding") ?? "")
      .split(",")
      .map((one) => one.trim().toLowerCase())
      .filter((one) => !/;\s*q=0(\.0*)?$/.test(one))
      .map((one) => one.split(";")[0]),
  );
  return accepted.has("br") ? "br" : accepted.has("gzip") ? "gzip" : "identity";
}

function encoded(
  cache: Map<string, Promise<Uint8Array>>,
  path: string,
  file: DashboardFile,
  encoding: Encoding,
): Promise<Uint8Array> {
  if (encoding === "identity") return Promise.resolve(file.bytes);
  const key = `${encoding} ${path} ${file.etag}`;
  let bytes = cache.get(key);
  if (!bytes) {
    bytes = compress(file.bytes, encoding);
    cache.set(key, bytes);
  }
  return bytes;
}

export function compress(bytes: Uint8Array, encoding: "br" | "gzip"): Promise<Uint8Array> {
  return encoding === "gzip"
    ? promisify(gzip)(bytes)
    : promisify(brotliCompress)(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: brotliQuality } });
}
