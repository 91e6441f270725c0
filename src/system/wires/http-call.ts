// One HTTP request to a server of the operator's: over a socket of this machine or TLS with its own authority. Bounded in
// time and size, and it follows nobody elsewhere.

import { request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import { DcnrError } from "../../core/errors.ts";

export interface HttpCall {
  readonly method: string;
  readonly url: string;
  readonly socketPath?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  readonly tls?: { readonly ca?: string; readonly cert?: string; readonly key?: string };
  readonly timeoutMs?: number;
}

const timeoutMsUsual = 20_000;
const answerMost = 32 << 20;

export function httpCall(call: HttpCall): Promise<{ readonly status: number; readonly text: string }> {
  const { method, url, socketPath, headers = {}, body, tls = {}, timeoutMs = timeoutMsUsual } = call;
  const content = body === undefined ? undefined : JSON.stringify(body);
  const send = url.startsWith("https:") ? httpsRequest : httpRequest;
  const place = socketPath ?? new URL(url).origin;
  return new Promise((resolve, reject) => {
    const lost = (why: string) => reject(new DcnrError("unavailable", `nobody answers at ${place}: ${why}`));
    const options = {
      ...{ method, ...(socketPath === undefined ? {} : { socketPath }), agent: false as const },
      headers: {
        ...headers,
        ...(content === undefined
          ? {}
          : { "content-type": "application/json", "content-length": Buffer.byteLength(content) }),
      },
      ...tls,
    };
    const sent = send(url, options, (response) => {
      const parts: Buffer[] = [];
      let bytes = 0;
      response.on("data", (part: Buffer) => {
        bytes += part.length;
        if (bytes > answerMost) sent.destroy(new Error("the answer is too long"));
        else parts.push(part);
      });
      response.on("error", (error) => lost(error.message));
      response.on("end", () =>
        resolve({ status: response.statusCode ?? 0, text: Buffer.concat(parts).toString("utf8") }),
      );
    });
    sent.setTimeout(timeoutMs, () => sent.destroy(new Error(`no answer within ${timeoutMs / 1000} s`)));
    sent.on("error", (error: NodeJS.ErrnoException) => lost(wordsFor(error)));
    sent.end(content);
  });
}

function wordsFor(error: NodeJS.ErrnoException): string {
  if (error.code === "ENOENT") return "there is no such socket";
  if (error.code === "EACCES") return "this user may not use the socket";
  if (error.code === "ECONNREFUSED") return "the connection is refused";
  return error.message;
}
