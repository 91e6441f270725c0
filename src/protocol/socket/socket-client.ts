// Opens WebSockets from Node: by TCP or TLS, through whatever lets HTTP pass. Where the address names a key the line is sealed inside,
// so that it does not matter who ends the TLS around it; where it names none, TLS and the web's certificates have to do.

import { connect as connectTcp, isIP } from "node:net";
import type { Duplex } from "node:stream";
import { connect as connectTls } from "node:tls";
import { DcnrError } from "../../core/errors.ts";
import { type Address, formatAddress } from "../routes/address.ts";
import type { Line } from "../routes/line.ts";
import type { Reach } from "../routes/reach.ts";
import { brokenBy } from "../streams/wire-errors.ts";
import { acceptOf, newKey, webSocketOn } from "./rfc6455.ts";
import { socketPath, socketProtocol } from "./web-socket-line.ts";

/** Servers that answer with more before they agree are no servers of ours. */
const answerBytesMax = 16 << 10;

export async function connectWebSocket(place: Address, reach: Reach | undefined, signal: AbortSignal): Promise<Line> {
  const { host, port, secure, key } = place;
  reach?.check(host);
  const where = formatAddress(host, port);
  const lookup = reach && { lookup: reach.lookup };
  const name = isIP(host) === 0 ? { servername: host } : {};
  const proof = { rejectUnauthorized: key === undefined };
  const socket: Duplex = secure
    ? connectTls({ host, port, ALPNProtocols: ["http/1.1"], ...lookup, ...name, ...proof })
    : connectTcp({ host, port, ...lookup }).setNoDelay(true);
  const left = () => socket.destroy(new DcnrError("cancelled", `${where} is not needed any more`));
  signal.addEventListener("abort", left, { once: true });
  try {
    return await agree(socket, where, secure);
  } catch (error) {
    socket.destroy();
    throw error instanceof DcnrError ? error : brokenBy(error as Error, where);
  } finally {
    signal.removeEventListener("abort", left);
  }
}

async function agree(socket: Duplex, where: string, secure: boolean): Promise<Line> {
  await new Promise<void>((resolve, reject) => {
    socket.once(secure ? "secureConnect" : "connect", resolve);
    socket.once("error", reject);
    socket.once("close", () => reject(new DcnrError("unavailable", `${where} closed the connection`)));
  });
  const key = newKey();
  const lines = [
    `GET ${socketPath} HTTP/1.1`,
    `host: ${where}`,
    "connection: Upgrade",
    "upgrade: websocket",
    "sec-websocket-version: 13",
    `sec-websocket-key: ${key}`,
    `sec-websocket-protocol: ${socketProtocol}`,
  ];
  socket.write(`${lines.join("\r\n")}\r\n\r\n`);
  const { head, rest } = await answerOn(socket, where);
  const [status = "", ...headers] = head.split("\r\n");
  const accepted = headers.some(
    (line) => /^sec-websocket-accept:/i.test(line) && line.slice(21).trim() === acceptOf(key),
  );
  if (!/^HTTP\/1\.1 101 /.test(status) || !accepted)
    throw new DcnrError("unavailable", `${where} takes no calls over WebSockets: it answers "${status.slice(0, 80)}"`);
  return webSocketOn(socket, rest, "client");
}

/** Up to the empty line, and what has come behind it. */
function answerOn(socket: Duplex, where: string): Promise<{ readonly head: string; readonly rest: Buffer }> {
  return new Promise((resolve, reject) => {
    let answer = Buffer.alloc(0);
    const settle = () => {
      socket.off("readable", read);
      socket.off("close", closed);
      socket.off("error", closed);
    };
    const closed = () => {
      settle();
      reject(new DcnrError("unavailable", `${where} closed the connection instead of answering`));
    };
    const read = () => {
      for (let bytes = socket.read(); bytes !== null; bytes = socket.read())
        answer = Buffer.concat([answer, bytes as Buffer]);
      const end = answer.indexOf("\r\n\r\n");
      if (end < 0 && answer.byteLength <= answerBytesMax) return;
      settle();
      if (end < 0) return reject(new DcnrError("unavailable", `${where} speaks something else than WebSocket`));
      resolve({ head: answer.toString("latin1", 0, end), rest: answer.subarray(end + 4) });
    };
    socket.on("readable", read);
    socket.on("close", closed);
    socket.on("error", closed);
  });
}
