// Serves PUT, GET and HEAD of /blobs/SPACE/HASH to machines that hold a signed token and nothing else.
// Everything about a request is checked before its body is read.

import { ReadableStream } from "node:stream/web";
import { type BlobSpaceName, isBlobSpace } from "../../core/blobs.ts";
import { DcnrError, type ErrorCode, fail } from "../../core/errors.ts";
import { parseSha256, type Sha256 } from "../../core/ids.ts";
import { pieceBytes } from "./blob-checks.ts";
import type { BlobRange, BlobSpace, BlobStore } from "./blob-store.ts";
import type { BlobTokens } from "./blob-tokens.ts";

const prefix = "/blobs/";

/** Where what lies in memory is counted: false if there is no room for so much more. */
interface Room {
  hold(bytes: number): boolean;
}

/** Has the shape of protocol's HttpHandler; undefined means that the request is not about blobs. */
export function blobHttpHandler(
  blobs: BlobStore,
): (request: Request, peer: string, room: Room) => Promise<Response | undefined> {
  const { tokens } = blobs;
  return async (request, _, room) => {
    const url = new URL(request.url);
    if (tokens === undefined || !url.pathname.startsWith(prefix)) return undefined;
    try {
      const [space = "", name = ""] = url.pathname.slice(prefix.length).split("/", 2);
      if (!isBlobSpace(space)) fail("not_found", `there is no name space "${space.slice(0, 40)}" for blobs`);
      const hash = parseSha256(name, "the blob's name");
      const token = url.searchParams.get("token");
      if (token === null)
        fail("unauthenticated", `blob ${hash} was asked for without a token: ask an orchestrator for an address`);
      return await respond(blobs, tokens, request, { space, hash, token, room });
    } catch (thrown) {
      return refusal(DcnrError.from(thrown), request.method);
    }
  };
}

interface Asked {
  readonly space: BlobSpaceName;
  readonly hash: Sha256;
  readonly token: string;
  readonly room: Room;
}

async function respond(
  blobs: BlobStore,
  tokens: BlobTokens,
  request: Request,
  { space, hash, token, room }: Asked,
): Promise<Response> {
  switch (request.method) {
    case "PUT":
      return upload(blobs[space], request, hash, tokens.check(token, space, "upload", hash));
    case "GET":
    case "HEAD":
      return download(blobs[space], request, hash, tokens.check(token, space, "download", hash), room);
    default:
      return new Response(`blobs know PUT, GET and HEAD, not ${request.method}\n`, {
        status: 405,
        headers: { allow: "PUT, GET, HEAD" },
      });
  }
}

async function upload(blobs: BlobSpace, request: Request, hash: Sha256, bytes: number): Promise<Response> {
  const announced = request.headers.get("content-length");
  if (announced !== null && Number(announced) !== bytes)
    fail(
      "invalid_argument",
      `blob ${hash} may be sent with ${bytes} bytes, not ${announced}: ask for an address for its true size`,
    );
  // A body without an announced length is cut off by the store as soon as it exceeds `bytes`.
  await blobs.put(hash, request.body ?? new Uint8Array(), bytes);
  return new Response(null, { status: 201 });
}

async function download(
  blobs: BlobSpace,
  request: Request,
  hash: Sha256,
  bytes: number,
  room: Room,
): Promise<Response> {
  const size = await blobs.size(hash);
  if (size === undefined) fail("not_found", `blob ${hash} is not here: it was not uploaded yet, or was collected`);
  if (size !== bytes)
    fail(
      "data_loss",
      `blob ${hash} has ${size} bytes, its address says ${bytes}: upload it again or ask for a new address`,
    );
  const headers = { "content-type": "application/octet-stream", "accept-ranges": "bytes", etag: `"${hash}"` };
  const body = (range?: BlobRange) => {
    if (request.method === "HEAD") return null;
    // One piece is held back until the next is read; the one on its way whoever sends it counts.
    if (!room.hold(pieceBytes)) fail("unavailable", "too much is being downloaded at once: try again later");
    return ReadableStream.from(blobs.stream(hash, range)) as BodyInit;
  };
  const range = parseRange(request.headers.get("range"), size);
  if (range === undefined) {
    return new Response(body(), { headers: { ...headers, "content-length": String(size) } });
  }
  if (range === "unsatisfiable")
    return new Response(`blob ${hash} has ${size} bytes\n`, {
      status: 416,
      headers: { "content-range": `bytes */${size}` },
    });
  return new Response(body(range), {
    status: 206,
    headers: {
      ...headers,
      "content-length": String(range.end - range.start),
      "content-range": `bytes ${range.start}-${range.end - 1}/${size}`,
    },
  });
}

/** One range, as RFC 9110 section 14 writes it; anything else is ignored, as it allows. */
function parseRange(header: string | null, size: number): BlobRange | "unsatisfiable" | undefined {
  const match = /^bytes=(\d*)-(\d*)$/.exec(header ?? "");
  if (match === null || (match[1] === "" && match[2] === "")) return undefined;
  const [first, last] = [match[1], match[2]];
  const start = first === "" ? Math.max(0, size - Number(last)) : Number(first);
  const end = first === "" || last === "" ? size : Math.min(size, Number(last) + 1);
  if (first !== "" && last !== "" && Number(last) < Number(first)) return undefined;
  return start >= end ? "unsatisfiable" : { start, end };
}

function refusal(error: DcnrError, method: string): Response {
  return new Response(method === "HEAD" ? null : `${error.message}\n`, {
    status: statusOf(error.code, method),
    headers: { "content-type": "text/plain; charset=utf-8", "dcnr-error": error.code },
  });
}

function statusOf(code: ErrorCode, method: string): number {
  switch (code) {
    case "invalid_argument":
      return 400;
    case "data_loss":
      return method === "PUT" ? 422 : 500;
    case "unauthenticated":
      return 401;
    case "permission_denied":
      return 403;
    case "not_found":
      return 404;
    case "out_of_range":
      return 416;
    case "resource_exhausted":
      return 507;
    case "unavailable":
      return 503;
    default:
      return 500;
  }
}
