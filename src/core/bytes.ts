// Bytes joined, compared and written as text, alike in Node and in browsers.

import { fail } from "./errors.ts";

export function joinBytes(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const joined = new Uint8Array(parts.reduce((sum, part) => sum + part.byteLength, 0));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.byteLength;
  }
  return joined;
}

export function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  if (a.byteLength !== b.byteLength) return false;
  for (let i = 0; i < a.byteLength; i++) if (a[i] !== b[i]) return false;
  return true;
}

export function hexOf(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += byte.toString(16).padStart(2, "0");
  return text;
}

/** Two digits for each byte. */
export function bytesOfHex(text: string): Uint8Array<ArrayBuffer> {
  if (text.length % 2 !== 0 || /[^0-9a-f]/i.test(text))
    fail("invalid_argument", "bytes in hexadecimal digits expected");
  return Uint8Array.from({ length: text.length / 2 }, (_, i) => Number.parseInt(text.slice(i * 2, i * 2 + 2), 16));
}

/** More arguments at once would exceed the stack of some engines. */
const charactersMax = 8_192;

export function base64Of(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.byteLength; at += charactersMax)
    text += String.fromCharCode(...bytes.subarray(at, at + charactersMax));
  return btoa(text);
}

export function bytesOfBase64(text: string): Uint8Array<ArrayBuffer> {
  let binary: string;
  try {
    binary = atob(text);
  } catch {
    return fail("invalid_argument", "bytes in base64 expected");
  }
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

export function bytesOfText(text: string): Uint8Array<ArrayBuffer> {
  return encoder.encode(text);
}

export function textOf(bytes: Uint8Array): string {
  return decoder.decode(bytes);
}

/** Memory that holds anything, for who writes all of it: Node need not fill it with zeros first. */
export function rawBytes(count: number): Uint8Array {
  return globalThis.Buffer === undefined ? new Uint8Array(count) : new Uint8Array(Buffer.allocUnsafeSlow(count).buffer);
}

/** Smaller ones may lie in one block with others'. */
const freedBytesMin = 1 << 16;

/**
 * Gives memory back at once that nobody looks at any more: a collector that sees only small objects waits until some sixty megabytes
 * of such blocks have come together, in each thread. All views of them are empty afterwards.
 */
export function freeBytes({ buffer, byteLength }: Uint8Array): void {
  if (byteLength >= freedBytesMin && buffer instanceof ArrayBuffer && !buffer.detached) buffer.transfer(0);
}

/**
 * Memory that goes back to the machine when it is resized to nothing, or collected. What comes from the C library's heap stays with the process
 * where it lies between what others keep.
 */
export function ownPages(bytes: number): ArrayBuffer {
  return new ArrayBuffer(bytes, { maxByteLength: bytes });
}
