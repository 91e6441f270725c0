// The calling end of a gRPC stream: opens it on a kept connection, and tells from headers and trailers how it ended.

import { type ClientHttp2Stream, constants, type IncomingHttpHeaders } from "node:http2";
import type { DescMethod } from "@bufbuild/protobuf";
import { DcnrError } from "../../core/errors.ts";
import type { Connections } from "../connections/connections.ts";
import { attachHttp2 } from "../connections/http2-wire.ts";
import type { ClientStream } from "../grpc-client.ts";
import { withoutKey } from "../routes/address.ts";
import { Pipe } from "./pipe.ts";
import { brokenBy, fromStatus, outlookHeader } from "./wire-errors.ts";

export function openStream(
  connections: Pick<Connections, "open">,
  address: string,
  { input, output, parent, name, methodKind }: DescMethod,
  headers: Readonly<Record<string, string>>,
  signal: AbortSignal | undefined,
): ClientStream {
  let stream: ClientHttp2Stream | undefined;
  const left = () => cancel();
  const ended = (failure?: DcnrError) => {
    signal?.removeEventListener("abort", left);
    pipe.end(failure);
  };
  const cancel = (failure?: DcnrError) => {
    ended(failure);
    stream?.close(constants.NGHTTP2_CANCEL);
  };
  const pipe = new Pipe(output, input, left);
  if (signal?.aborted) {
    pipe.end();
    return { pipe, finish: () => {}, cancel };
  }
  signal?.addEventListener("abort", left, { once: true });
  try {
    stream = connections.open(address, {
      headers: {
        ":path": `/${parent.typeName}/${name}`,
        ...headers,
        "content-type": "application/grpc+proto",
        te: "trailers",
      },
      // Whoever calls and waits for one answer says how long.
      answersAtOnce: methodKind !== "unary",
      failed: ended,
    });
    follow(stream, withoutKey(address), ended);
    attachHttp2(pipe, stream);
  } catch (error) {
    ended(error instanceof DcnrError ? error : brokenBy(error as Error, withoutKey(address)));
  }
  return { pipe, finish: () => stream?.end(), cancel };
}

function follow(stream: ClientHttp2Stream, address: string, told: (failure?: DcnrError) => void): void {
  // Without a status the stream has broken, whatever else happened.
  let failure: DcnrError | undefined = new DcnrError("unavailable", `the stream to ${address} broke`);
  const ended = () => {
    told(failure);
    stream.close();
  };
  const judge = (headers: IncomingHttpHeaders) => {
    const status = headers["grpc-status"];
    if (status === undefined) return;
    failure = fromStatus(Number(status), decoded(headers["grpc-message"]), headers[outlookHeader], address);
  };
  stream.on("response", (headers) => {
    judge(headers);
    const status = Number(headers[":status"]);
    if (status !== 200) {
      failure = new DcnrError(codeOf(status), `${address} answers with HTTP status ${status}`);
      ended();
    }
  });
  stream.on("trailers", judge);
  stream.on("end", ended);
  stream.on("error", (error) => {
    failure = brokenBy(error, address);
  });
  stream.on("close", ended);
}

/** A peer may send anything. */
function decoded(text: string | string[] | undefined): string {
  try {
    return decodeURIComponent(String(text ?? ""));
  } catch {
    return String(text);
  }
}

function codeOf(status: number): "permission_denied" | "unimplemented" | "unavailable" | "internal" {
  if (status === 401 || status === 403) return "permission_denied";
  if (status === 404) return "unimplemented";
  return status === 429 || status >= 502 ? "unavailable" : "internal";
}
