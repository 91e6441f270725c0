// Plain HTTP on the same port: Node's requests as web standard ones, so that handlers are easy to test.

import type { ServerResponse } from "node:http";
import type { connectNodeAdapter } from "@connectrpc/connect-node";
import { DcnrError, type ErrorCode, fail } from "../../core/errors.ts";
import type { Log } from "../../core/world.ts";
import type { HttpHandler } from "../network.ts";
import type { Visit } from "./desk.ts";
import { type Patience, writeAnswer } from "./writing.ts";

/** HTTP/1.1 and HTTP/2 alike. */
export type NodeServerRequest = Parameters<ReturnType<typeof connectNodeAdapter>>[0];
export type NodeServerResponse = Parameters<ReturnType<typeof connectNodeAdapter>>[1];

/** Codes that have an HTTP status of their own; the rest is a server error. */
const statuses: Partial<Record<ErrorCode, number>> = {
  invalid_argument: 400,
  out_of_range: 400,
  unauthenticated: 401,
  permission_denied: 403,
  not_found: 404,
  already_exists: 409,
  // Many clients repeat what is answered with 409.
  failed_precondition: 400,
  resource_exhausted: 429,
  unavailable: 503,
};

/** Asks one handler after the other until one answers. */
export function firstOf(...handlers: readonly HttpHandler[]): HttpHandler {
  return async (request, peer, visit) => {
    for (const handler of handlers) {
      const answer = await handler(request, peer, visit);
      if (answer) return answer;
    }
    return undefined;
  };
}

export async function answerHttp(
  handler: HttpHandler | undefined,
  request: NodeServerRequest,
  response: NodeServerResponse,
  { log, ...patience }: Patience & { readonly visit: Visit; readonly log: Log },
): Promise<void> {
  const gone = new AbortController();
  response.once("close", () => gone.abort());
  try {
    const peer = request.socket?.remoteAddress ?? "unknown";
    const answer = await handler?.(webRequest(request, gone.signal), peer, patience.visit);
    await writeAnswer(answer ?? new Response("not found\n", { status: 404 }), response, patience);
  } catch (error) {
    if (gone.signal.aborted) return;
    const expected = error instanceof DcnrError;
    if (!expected) log("error", `HTTP ${request.method} ${request.url?.split("?")[0]} failed: ${String(error)}`);
    if (response.headersSent) return void (response as ServerResponse).destroy();
    const status = expected ? (statuses[error.code] ?? 500) : 500;
    const said = new Response(`${expected ? error.message : "internal error"}\n`, { status });
    await writeAnswer(said, response, patience);
  }
}

function webRequest(request: NodeServerRequest, signal: AbortSignal): Request {
  const headers = new Headers();
  for (const [name, value] of Object.entries(request.headers)) {
    if (name.startsWith(":") || value === undefined) continue;
    for (const item of Array.isArray(value) ? value : [value]) headers.append(name, item);
  }
  const authority = String(request.headers[":authority"] ?? request.headers.host ?? "localhost");
  const hasBody = request.method !== "GET" && request.method !== "HEAD";
  const path = request.url ?? "/";
  const url = `http://${authority}${path}`;
  if (!path.startsWith("/") || !URL.canParse(url))
    fail("invalid_argument", "the request names no address: ask for a path that begins with /");
  const web = new Request(url, {
    method: request.method ?? "GET",
    headers,
    ...(hasBody ? { body: bodyOf(request), duplex: "half" } : {}),
  } as RequestInit);
  // A Request follows the signal it is given only weakly, and forgets it when collected; ours must always fire.
  Object.defineProperty(web, "signal", { value: signal });
  return web;
}

/** A handler that stops reading must not reset the connection: its refusal would never arrive. */
function bodyOf(request: NodeServerRequest): ReadableStream<Uint8Array> {
  const pieces = request[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>;
  return new ReadableStream<Uint8Array>(
    {
      pull: async (controller) => {
        const next = await pieces.next();
        if (next.done) controller.close();
        else controller.enqueue(next.value);
      },
    },
    { highWaterMark: 0 },
  );
}
