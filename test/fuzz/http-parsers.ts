// Requests as they come on a wire, HTTP/1.1 and HTTP/2, to a server of ours on this machine. What its HTTP libraries let through is judged
// by us, and nothing that a request makes fail may be anybody's but that request's.

import { connect } from "node:net";
import { fail } from "../../src/core/errors.ts";
import { silentLog } from "../../src/core/world.ts";
import { openGrpcNetwork } from "../../src/protocol/grpc.ts";
import type { Server } from "../../src/protocol/network.ts";
import { parseAddress } from "../../src/protocol/routes/address.ts";
import { healthService } from "../../src/protocol/server/health.ts";
import { backgroundTimers } from "../../src/system/timers.ts";
import type { Parser } from "./parsers.ts";

const path = "/grpc.health.v1.Health/Check";
const lines = (...all: readonly string[]) => Buffer.from(`${all.join("\r\n")}\r\n\r\n`);
const json = ["content-type: application/json", "content-length: 2"];

const samples = [
  lines("GET /page HTTP/1.1", "host: 127.0.0.1:7700", "accept: */*"),
  Buffer.concat([lines(`POST ${path} HTTP/1.1`, "host: localhost", ...json), Buffer.from("{}")]),
  lines(`GET ${path} HTTP/1.0`),
  lines("OPTIONS /page HTTP/1.1", "host: [::1]:80", "origin: http://localhost:80"),
  lines("GET /page HTTP/1.1", "host: localhost", "transfer-encoding: chunked", "", "4", "abcd", "0"),
  lines(
    ...["GET /dcnr/socket HTTP/1.1", "host: localhost", "connection: upgrade", "upgrade: websocket"],
    ...["sec-websocket-version: 13", "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ=="],
  ),
  ofHttp2(path, "127.0.0.1:7700"),
  ofHttp2("/page", "localhost"),
];

/** A connection of HTTP/2 with one request, its headers spelt out. */
function ofHttp2(url: string, authority: string): Buffer {
  const frame = (type: number, flags: number, stream: number, payload: Buffer) => {
    const head = Buffer.alloc(9);
    head.writeUIntBE(payload.length, 0, 3);
    head.set([type, flags], 3);
    head.writeUInt32BE(stream, 5);
    return Buffer.concat([head, payload]);
  };
  const field = (name: string, value: string) =>
    Buffer.from([0, name.length, ...Buffer.from(name), value.length, ...Buffer.from(value)]);
  const fields = [
    [":method", "POST"],
    [":scheme", "http"],
    [":path", url],
    [":authority", authority],
    ["content-type", "application/json"],
  ] as const;
  return Buffer.concat([
    Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    frame(4, 0, 0, Buffer.alloc(0)),
    frame(1, 4, 1, Buffer.concat(fields.map(([name, value]) => field(name, value)))),
    frame(0, 1, 1, Buffer.from("{}")),
  ]);
}

/** Nobody on this machine needs longer for an answer; what is still open then waits for more of the request. */
const patienceMs = 100;

function answerTo(server: Server, bytes: Uint8Array): Promise<Buffer> {
  const { host, port } = parseAddress(server.address);
  const said: Buffer[] = [];
  return new Promise((resolve) => {
    const socket = connect(port, host, () => socket.end(bytes));
    socket.setTimeout(patienceMs, () => socket.destroy());
    socket.on("error", () => {});
    socket.on("data", (piece: Buffer) => said.push(piece));
    socket.once("close", () => resolve(Buffer.concat(said)));
  });
}

/** Of HTTP/1.1 by its first line; of HTTP/2 by the first byte of its headers, where usual ones have numbers. */
function statusOf(said: Buffer): number | undefined {
  const text = /^HTTP\/1\.[01] (\d{3})/.exec(said.subarray(0, 16).toString("latin1"));
  if (text) return Number(text[1]);
  for (let at = 0; at + 9 < said.length; at += 9 + said.readUIntBE(at, 3))
    if (said[at + 3] === 1)
      return new Map([
        [0x88, 200],
        [0x8e, 500],
      ]).get(said[at + 9] as number);
  return undefined;
}

export function openHttpParsers(): Parser[] {
  const network = openGrpcNetwork({ timers: backgroundTimers, log: silentLog });
  const page = async (request: Request) => new Response(`page ${new URL(request.url).pathname}`);
  let served: Promise<Server> | undefined;
  return [
    {
      name: "requests on a wire",
      costly: true,
      samples,
      parse: async (spoiled) => {
        served ??= network.serve("127.0.0.1:0", [healthService(() => true, backgroundTimers)], page);
        const status = statusOf(await answerTo(await served, spoiled));
        if (status === 500) throw new Error("an internal error");
        if (status === undefined || status >= 300) fail("invalid_argument", "not answered");
      },
      close: () => void served?.then((server) => server.close()).then(() => network.close()),
    },
  ];
}
