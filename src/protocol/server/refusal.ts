// Refuses a call whose body nobody has read, in the language that the caller speaks.

import type { ServerResponse } from "node:http";
import { constants } from "node:http2";
import { Code, type ConnectError } from "@connectrpc/connect";
import type { NodeServerRequest, NodeServerResponse } from "./http.ts";

/** As Connect's specification maps them; what is missing here is not used to refuse a caller. */
const statuses: ReadonlyMap<Code, number> = new Map([
  [Code.InvalidArgument, 400],
  [Code.Unauthenticated, 401],
  [Code.PermissionDenied, 403],
  [Code.ResourceExhausted, 429],
  [Code.Unavailable, 503],
  [Code.DeadlineExceeded, 504],
]);
const names: ReadonlyMap<Code, string> = new Map([
  [Code.InvalidArgument, "invalid_argument"],
  [Code.Unauthenticated, "unauthenticated"],
  [Code.PermissionDenied, "permission_denied"],
  [Code.ResourceExhausted, "resource_exhausted"],
  [Code.Unavailable, "unavailable"],
  [Code.DeadlineExceeded, "deadline_exceeded"],
]);

export function refuse(error: ConnectError, request: NodeServerRequest, response: NodeServerResponse): void {
  if (response.headersSent || response.writableEnded) return;
  const type = String(request.headers["content-type"] ?? "");
  const answer = response as ServerResponse;
  if (type.startsWith("application/grpc")) {
    // Trailers alone: gRPC and gRPC-Web take the status from the headers then.
    const message = encodeURIComponent(error.rawMessage);
    answer.writeHead(200, { "content-type": type, "grpc-status": String(error.code), "grpc-message": message }).end();
  } else {
    const body = JSON.stringify({ code: names.get(error.code) ?? "unknown", message: error.rawMessage });
    const headers = { "content-type": "application/json", connection: "close" };
    if (request.httpVersionMajor === 2) Reflect.deleteProperty(headers, "connection");
    answer.writeHead(statuses.get(error.code) ?? 500, headers).end(body);
  }
  // What is still on its way is not wanted.
  if ("stream" in request) request.stream.close(constants.NGHTTP2_NO_ERROR);
  else request.resume();
}
