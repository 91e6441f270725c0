// The calling end of a gRPC stream: opens it on a kept connection, and tells from headers and trailers how it ended.

import { type ClientHttp2Stream, constants, type IncomingHttpHeaders } from "node:http2";
import type { DescMethod } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import type { Http2SessionManager } from "@connectrpc/connect-node";
import { DcnrError } from "../core/errors.ts";
import { Pipe } from "./pipe.ts";
import { fromWire } from "./wire-errors.ts";

export interface ClientStream {
  readonly pipe: Pipe;
  /** Says that nothing more will be sent. */
  finish(): void;
  /** Ends both ways at once; readers just come to the end. */
  cancel(): void;
}

export function openStream(
  manager: Http2SessionManager,
  address: string,
  { input, output, parent, name }: DescMethod,
  headers: Readonly<Record<string, string>>,
  signal: AbortSignal | undefined,
): ClientStream {
  let stream: ClientHttp2Stream | undefined;
  let cancelled = false;
  const cancel = () => {
    cancelled = true;
    signal?.removeEventListener("abort", cancel);
    pipe.end();
    stream?.close(constants.NGHTTP2_CANCEL);
  };
  const pipe = new Pipe(output, input, cancel);
  const ended = (failure?: DcnrError) => {
    signal?.removeEventListener("abort", cancel);
    pipe.end(failure);
    stream?.close();
  };
  if (signal?.aborted) cancel();
  signal?.addEventListener("abort", cancel, { once: true });
  const opening = manager.request(
    "POST",
    `/${parent.typeName}/${name}`,
    { ...headers, "content-type": "application/grpc+proto", te: "trailers" },
    {},
  );
  opening.then(
    (opened) => {
      stream = opened;
      follow(manager, opened, address, ended);
      pipe.attach(opened);
      if (cancelled) opened.close(constants.NGHTTP2_CANCEL);
    },
    (error: unknown) => ended(fromWire(error, address)),
  );
  return { pipe, finish: () => stream?.end(), cancel };
}

function follow(
  manager: Http2SessionManager,
  stream: ClientHttp2Stream,
  address: string,
  ended: (failure?: DcnrError) => void,
): void {
  // Without a status the stream has broken, whatever else happened.
  let failure: DcnrError | undefined = new DcnrError("unavailable", `the stream to ${address} broke`);
  const judge = (headers: IncomingHttpHeaders) => {
    if (headers["grpc-status"] !== undefined) failure = statusOf(headers, address);
  };
  stream.on("response", (headers) => {
    judge(headers);
    const status = Number(headers[":status"]);
    if (status !== 200) {
      failure = new DcnrError(codeOf(status), `${address} answers with HTTP status ${status}`);
      ended(failure);
    }
  });
  stream.on("trailers", judge);
  stream.on("data", () => manager.notifyResponseByteRead(stream));
  stream.on("end", () => ended(failure));
  stream.on("error", (error) => {
    failure = new DcnrError("unavailable", `the stream to ${address} broke: ${error.message}`, { cause: error });
  });
  stream.on("close", () => ended(failure));
}

function statusOf(headers: IncomingHttpHeaders, address: string): DcnrError | undefined {
  const code = Number(headers["grpc-status"]);
  if (code === 0) return undefined;
  const known = Code[code] === undefined ? Code.Internal : (code as Code);
  return fromWire(new ConnectError(decoded(String(headers["grpc-message"] ?? "")), known), address);
}

/** A peer may send anything. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function codeOf(status: number): "permission_denied" | "unimplemented" | "unavailable" | "internal" {
  if (status === 401 || status === 403) return "permission_denied";
  if (status === 404) return "unimplemented";
  return status === 429 || status >= 502 ? "unavailable" : "internal";
}
