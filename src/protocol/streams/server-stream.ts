// The answering end of gRPC streams over HTTP/2. Whatever else speaks to the same methods (gRPC-Web, Connect, deadlines,
// compression) is left to Connect.

import type { Http2ServerRequest, Http2ServerResponse, IncomingHttpHeaders } from "node:http2";
import type { DescMethod } from "@bufbuild/protobuf";
import type { ConnectError } from "@connectrpc/connect";
import { DcnrError } from "../../core/errors.ts";
import { attachHttp2 } from "../connections/http2-wire.ts";
import { callerOf } from "../identity/caller.ts";
import type { CallContext, ServedService } from "../network.ts";
import type { Visit } from "../server/desk.ts";
import { answerCall } from "./answer-call.ts";
import { Pipe } from "./pipe.ts";
import { outlookHeader } from "./wire-errors.ts";

interface Route {
  readonly method: DescMethod;
  readonly handler: unknown;
}

export type StreamRoutes = ReadonlyMap<string, Route>;

/** Streaming methods by their path. */
export function streamRoutes(services: readonly ServedService[]): StreamRoutes {
  const routes = new Map<string, Route>();
  for (const { descriptor, handlers } of services)
    for (const method of descriptor.methods)
      if (method.methodKind === "bidi_streaming" || method.methodKind === "server_streaming")
        routes.set(`/${descriptor.typeName}/${method.name}`, { method, handler: handlers[method.localName] });
  return routes;
}

/** The stream's route if it is plain gRPC. */
export function routeOf(routes: StreamRoutes, path: string, headers: IncomingHttpHeaders): Route | undefined {
  const type = headers["content-type"];
  if (type !== "application/grpc+proto" && type !== "application/grpc") return undefined;
  if (headers["grpc-timeout"] !== undefined || (headers["grpc-encoding"] ?? "identity") !== "identity")
    return undefined;
  return routes.get(path);
}

/** `failed` makes of an error what the caller may know. */
export function serveStream(
  { method, handler }: Route,
  request: Http2ServerRequest,
  response: Http2ServerResponse,
  visit: Visit,
  failed: (method: DescMethod, error: unknown) => ConnectError,
): void {
  const { stream } = request;
  const gone = new AbortController();
  const pipe = new Pipe(method.input, method.output, () => stream.resume(), visit.hold);
  const context: CallContext = {
    signal: gone.signal,
    caller: callerOf(request),
    header: (name) => {
      const value = request.headers[name];
      return Array.isArray(value) ? value.join(", ") : value;
    },
  };
  response.writeHead(200, { "content-type": String(request.headers["content-type"]) });
  let served = false;
  stream.on("end", () => pipe.endReading(stream.aborted ? callerGone() : undefined));
  stream.on("close", () => {
    if (!served) gone.abort();
    pipe.end(callerGone());
  });
  attachHttp2(pipe, stream);
  const close = () => {
    finish(response, succeeded);
    pipe.end();
  };
  answerCall(method, handler, pipe, context, close).then(
    () => {
      served = true;
      finish(response, succeeded);
    },
    (error: unknown) => {
      served = true;
      const { code, rawMessage, metadata } = failed(method, error);
      const outlook = metadata.get(outlookHeader);
      finish(response, {
        "grpc-status": String(code),
        "grpc-message": encodeURIComponent(rawMessage),
        ...(outlook && { [outlookHeader]: outlook }),
      });
    },
  );
}

const succeeded = { "grpc-status": "0" };

function callerGone(): DcnrError {
  return new DcnrError("cancelled", "the caller went away");
}

function finish(response: Http2ServerResponse, trailers: Record<string, string>): void {
  if (response.stream === undefined || response.stream.destroyed || response.writableEnded) return;
  response.addTrailers(trailers);
  response.end();
}
