// WebSockets (RFC 6455) on a stream of Node's, for either end: binary messages, nothing optional. What breaks the rules, or
// is longer than anything that is spoken here, ends the connection.

import { createHash, randomBytes, randomFillSync } from "node:crypto";
import type { Duplex } from "node:stream";
import { DcnrError, fail } from "../../core/errors.ts";
import type { Line } from "../routes/line.ts";
import { frameBytesMax } from "./socket-frames.ts";

const opcodes = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const;
const controlBytesMax = 125;
/** A sealed frame is a little longer than the frame. */
const messageBytesMax = frameBytesMax + 64;
/** The RFC's. */
const acceptSuffix = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/** What a server answers to a client's key. */
export function acceptOf(key: string): string {
  return createHash("sha1")
    .update(key + acceptSuffix)
    .digest("base64");
}

export function newKey(): string {
  return randomBytes(16).toString("base64");
}

export function isKey(key: unknown): key is string {
  return typeof key === "string" && Buffer.from(key, "base64").byteLength === 16 && key.length === 24;
}

/** Clients mask what they send, so that nothing between takes it for something else. */
function header(opcode: number, length: number, isMasked: boolean): Buffer {
  const long = length > 65_535 ? 8 : length > 125 ? 2 : 0;
  const bytes = Buffer.alloc(2 + long);
  bytes[0] = 0x80 | opcode;
  bytes[1] = (isMasked ? 0x80 : 0) | (long === 8 ? 127 : long === 2 ? 126 : length);
  if (long === 2) bytes.writeUInt16BE(length, 2);
  if (long === 8) bytes.writeBigUInt64BE(BigInt(length), 2);
  return bytes;
}

function masked(payload: Uint8Array, mask: Uint8Array): Uint8Array {
  const turned = Uint8Array.prototype.slice.call(payload);
  unmask(turned, mask);
  return turned;
}

/** In place, four bytes at a time where they lie well. */
function unmask(bytes: Uint8Array, mask: Uint8Array): void {
  const aligned = bytes.byteOffset % 4 === 0 ? bytes.byteLength >> 2 : 0;
  if (aligned > 0) {
    const words = new Uint32Array(bytes.buffer, bytes.byteOffset, aligned);
    const word = new Uint32Array(Uint8Array.from(mask).buffer)[0] as number;
    for (let at = 0; at < aligned; at++) words[at] = (words[at] as number) ^ word;
  }
  for (let at = aligned * 4; at < bytes.byteLength; at++) bytes[at] = (bytes[at] as number) ^ (mask[at & 3] as number);
}

interface Piece {
  readonly final: boolean;
  readonly opcode: number;
  readonly payload: Uint8Array;
}

/** Reads bytes of a stream as they are needed: whoever does not read holds the sender back. */
class Bytes {
  readonly #source: AsyncIterator<Buffer>;
  #rest: Buffer;

  constructor(source: AsyncIterator<Buffer>, head: Buffer) {
    this.#source = source;
    this.#rest = head;
  }

  /** Bytes of one's own, aligned; undefined at the end. */
  async take(count: number): Promise<Uint8Array | undefined> {
    const whole = new Uint8Array(count);
    let filled = 0;
    while (filled < count) {
      if (this.#rest.byteLength === 0) {
        const next = await this.#source.next();
        if (next.done) return undefined;
        this.#rest = next.value;
      }
      const part = this.#rest.subarray(0, count - filled);
      whole.set(part, filled);
      filled += part.byteLength;
      this.#rest = this.#rest.subarray(part.byteLength);
    }
    return whole;
  }
}

async function nextPiece(bytes: Bytes, expectsMask: boolean): Promise<Piece | undefined> {
  const start = await bytes.take(2);
  if (start === undefined) return undefined;
  const [first = 0, second = 0] = start;
  if ((first & 0x70) !== 0) fail("invalid_argument", "an extension is spoken on the WebSocket that nobody agreed to");
  if ((second & 0x80) !== (expectsMask ? 0x80 : 0))
    fail("invalid_argument", "what comes on the WebSocket is not masked as it should be");
  const opcode = first & 0x0f;
  const final = (first & 0x80) !== 0;
  const short = second & 0x7f;
  let length = short;
  if (short >= 126) {
    const long = await bytes.take(short === 126 ? 2 : 8);
    if (long === undefined) return undefined;
    const view = new DataView(long.buffer);
    length = short === 126 ? view.getUint16(0) : Number(view.getBigUint64(0));
  }
  if (opcode >= opcodes.close && (length > controlBytesMax || !final))
    fail("invalid_argument", "a control frame of the WebSocket is too long");
  if (length > messageBytesMax) fail("invalid_argument", `a message of ${length} bytes is too long`);
  const mask = expectsMask ? await bytes.take(4) : undefined;
  const payload = await bytes.take(length);
  if (payload === undefined || (expectsMask && mask === undefined)) return undefined;
  if (mask !== undefined) unmask(payload, mask);
  return { final, opcode, payload };
}

/** The line on a WebSocket whose handshake is over. `head`: what has come behind that. */
export function webSocketOn(socket: Duplex, head: Buffer, role: "client" | "server"): Line {
  const write = (opcode: number, payload: Uint8Array): Promise<void> => {
    if (socket.destroyed || socket.writableEnded)
      return Promise.reject(new DcnrError("unavailable", "the socket has closed"));
    const mask = role === "client" ? randomFillSync(new Uint8Array(4)) : undefined;
    socket.cork();
    socket.write(header(opcode, payload.byteLength, mask !== undefined));
    if (mask !== undefined) socket.write(mask);
    const hasRoom = socket.write(mask === undefined ? payload : masked(payload, mask));
    socket.uncork();
    return hasRoom ? done : drained(socket);
  };
  async function* incoming(): AsyncGenerator<Uint8Array> {
    const bytes = new Bytes(socket[Symbol.asyncIterator]() as AsyncIterator<Buffer>, head);
    let parts: Uint8Array[] = [];
    let partBytes = 0;
    for (;;) {
      const piece = await nextPiece(bytes, role === "server");
      if (piece === undefined || piece.opcode === opcodes.close) return;
      const { opcode, payload, final } = piece;
      if (opcode === opcodes.ping) {
        await write(opcodes.pong, payload);
        continue;
      }
      if (opcode === opcodes.pong) continue;
      if (opcode !== (parts.length === 0 ? opcodes.binary : opcodes.continuation))
        fail("invalid_argument", "binary messages are spoken on this WebSocket, and nothing else");
      parts.push(payload);
      partBytes += payload.byteLength;
      if (partBytes > messageBytesMax || parts.length > partsMax) fail("invalid_argument", "a message is too long");
      if (!final) continue;
      yield parts.length === 1 ? payload : new Uint8Array(Buffer.concat(parts, partBytes));
      parts = [];
      partBytes = 0;
    }
  }
  socket.on("error", () => {});
  const messages = incoming();
  return {
    send: (message) => write(opcodes.binary, message),
    incoming: messages,
    close: () => {
      if (socket.destroyed || socket.writableEnded) return;
      // Whoever does not read is not waited for.
      if (socket.writableNeedDrain) return void socket.destroy();
      write(opcodes.close, new Uint8Array(0)).catch(() => {});
      socket.end(() => socket.destroy());
    },
  };
}

/** Proxies may cut messages; into more parts than this nobody does. */
const partsMax = 256;
const done = Promise.resolve();

function drained(socket: Duplex): Promise<void> {
  return new Promise((resolve, reject) => {
    const settle = () => {
      socket.off("drain", settle);
      socket.off("close", settle);
      if (socket.destroyed) reject(new DcnrError("unavailable", "the socket has closed"));
      else resolve();
    };
    socket.on("drain", settle);
    socket.on("close", settle);
  });
}
