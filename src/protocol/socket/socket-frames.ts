// What travels on a socket that carries calls: each message is one frame, a kind, the number of a stream, and what the kind
// says. The bytes of a `data` frame are gRPC's own framing of messages, so that both ways to carry calls carry the same.

import { fail } from "../../core/errors.ts";
import type { CallStatus } from "../streams/wire-errors.ts";

/** Kinds that a version does not know end the socket: `hello` says which version is spoken. */
const kinds = ["hello", "open", "begun", "data", "credit", "end", "status", "reset", "ping", "pong"] as const;
export type FrameKind = (typeof kinds)[number];

export interface SocketFrame {
  readonly kind: FrameKind;
  /** 0 for what concerns the socket. */
  readonly stream: number;
  readonly payload: Uint8Array;
}

export const socketVersion = 1;
const headBytes = 5;
/** Larger pieces would hold other streams up; smaller ones cost more each than their bytes. */
export const pieceBytesMax = 256 << 10;
export const frameBytesMax = headBytes + pieceBytesMax;
/** What may be sent on a stream before the other end has said that it takes it. */
export const firstCreditBytes = 64 << 10;
/** What may be under way on a stream: 40 MB/s at a round trip of 100 ms. */
export const streamWindowBytes = 4 << 20;

const none = new Uint8Array(0);

export function encodeFrame(kind: FrameKind, stream = 0, ...pieces: readonly Uint8Array[]): Uint8Array {
  const bytes = pieces.reduce((sum, piece) => sum + piece.byteLength, headBytes);
  const frame = new Uint8Array(bytes);
  frame[0] = kinds.indexOf(kind);
  new DataView(frame.buffer).setUint32(1, stream);
  let at = headBytes;
  for (const piece of pieces) {
    frame.set(piece, at);
    at += piece.byteLength;
  }
  return frame;
}

export function decodeFrame(message: Uint8Array): SocketFrame {
  const kind = kinds[message[0] ?? kinds.length];
  if (kind === undefined || message.byteLength < headBytes)
    fail("invalid_argument", "something else is spoken on this socket, or a newer version");
  if (message.byteLength > frameBytesMax)
    fail("invalid_argument", `a frame of ${message.byteLength} bytes is too long`);
  const view = new DataView(message.buffer, message.byteOffset, message.byteLength);
  const payload = message.byteLength > headBytes ? message.subarray(headBytes) : none;
  return { kind, stream: view.getUint32(1), payload };
}

export function encodeNumber(value: number): Uint8Array {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value);
  return bytes;
}

export function decodeNumber(payload: Uint8Array): number {
  if (payload.byteLength !== 4) fail("invalid_argument", "a number of four bytes is expected here");
  return new DataView(payload.buffer, payload.byteOffset, 4).getUint32(0);
}

/** What a call begins with. */
export interface CallHead {
  readonly path: string;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
}

const headerPattern = /^([a-z0-9][a-z0-9-]*): ([^\r\n]*)$/;

export function encodeHead({ path, headers }: CallHead): Uint8Array {
  const lines = [path, ...Object.entries(headers).map(([name, value]) => `${name.toLowerCase()}: ${value}`)];
  const bytes = new TextEncoder().encode(lines.join("\n"));
  if (bytes.byteLength > pieceBytesMax) fail("invalid_argument", "the headers of a call are too long");
  return bytes;
}

export function decodeHead(payload: Uint8Array, limits: { readonly bytesMax: number; readonly countMax: number }) {
  if (payload.byteLength > limits.bytesMax) fail("resource_exhausted", "the headers are too long");
  const [path = "", ...lines] = new TextDecoder().decode(payload).split("\n");
  if (lines.length > limits.countMax) fail("resource_exhausted", "there are too many headers");
  const headers: Record<string, string> = Object.create(null);
  for (const line of lines) {
    const [, name, value] = headerPattern.exec(line) ?? [];
    if (name === undefined || value === undefined) fail("invalid_argument", "a header is not one");
    headers[name] = value;
  }
  return { path, headers } satisfies CallHead;
}

/** A sentence that is longer is cut. */
const sentenceLengthMax = 4_096;

export function encodeStatus({ code, message, outlook }: CallStatus): Uint8Array {
  return new TextEncoder().encode(`${code}\n${outlook}\n${message.slice(0, sentenceLengthMax)}`);
}

export function decodeStatus(payload: Uint8Array): CallStatus {
  const [code = "", outlook = "", ...message] = new TextDecoder().decode(payload).split("\n");
  return { code: /^\d{1,2}$/.test(code) ? Number(code) : 13, outlook, message: message.join("\n") };
}
