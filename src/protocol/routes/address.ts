// Addresses as people write them: "host:port", "[::1]:port", optionally with http:// or https:// in front, or with the
// key that must answer there behind it: "host:port#id". "wss://host#id" (or ws://) is spoken to over a WebSocket, which passes
// where only the web does.

import { fail } from "../../core/errors.ts";
import type { KeyId, PNodeId } from "../../core/ids.ts";
import { isKeyId } from "../../core/keys.ts";

export interface Address {
  readonly host: string;
  readonly port: number;
  readonly secure: boolean;
  /** Spoken to over a WebSocket. */
  readonly socket: boolean;
  /** Whoever answers must hold this key; the connection is encrypted then. */
  readonly key?: KeyId;
}

export function parseAddress(text: string, portDefault?: number): Address {
  const [place = "", key] = splitKey(text);
  const scheme = /^(https?|wss?):\/\//.exec(place);
  const rest = (scheme ? place.slice(scheme[0].length) : place).replace(/\/+$/, "");
  const match = /^(\[[0-9a-fA-F:.%]+\]|[^:[\]/\s]+)(?::(\d{1,5}))?$/.exec(rest);
  const socket = scheme?.[1]?.startsWith("ws") ?? false;
  const secure = scheme?.[1] === "https" || scheme?.[1] === "wss";
  const port = match?.[2] === undefined ? (secure ? 443 : portDefault) : Number(match[2]);
  if (!match?.[1] || port === undefined || port > 65_535)
    fail("invalid_argument", `"${text}" is not an address: write host:port, for example 127.0.0.1:7700`);
  const host = match[1].replace(/^\[|\]$/g, "");
  if (key === undefined) return { host, port, secure, socket };
  if (!isKeyId(key) || (scheme !== null && !socket))
    fail("invalid_argument", `"${text}" is not an address: behind # stands the key's id, 52 letters and digits`);
  return { host, port, secure, socket, key };
}

/** Whether an address is spoken to over a WebSocket. */
export function isSocketAddress(address: string): boolean {
  return /^wss?:\/\//.test(address);
}

function splitKey(text: string): [string, string?] {
  const at = text.indexOf("#");
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + 1)];
}

/** The same place, where this key must answer; a PNode's id is its key's. */
export function withKey(address: string, key: KeyId | PNodeId): string {
  return `${splitKey(address)[0]}#${key}`;
}

/** The key behind an address or routes, if there is one. */
export function keyOf(address: string): KeyId | undefined {
  return splitKey(address)[1] as KeyId | undefined;
}

/** The place alone, for people. */
export function withoutKey(address: string): string {
  return splitKey(address)[0];
}

export function formatAddress(host: string, port: number): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}

export function baseUrl(text: string): string {
  const { host, port, secure } = parseAddress(text);
  return `${secure ? "https" : "http"}://${formatAddress(host, port)}`;
}

/** Means "all interfaces" where a server listens, and nobody where one calls. */
export function isUnspecified(host: string): boolean {
  return host === "0.0.0.0" || /^[0:]+$/.test(host);
}

export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || /^127\.\d+\.\d+\.\d+$/.test(host);
}

/** Others who call such addresses call themselves. */
export function areOnlyHere(addresses: readonly string[]): boolean {
  return addresses.every((address) => isLoopback(parseAddress(address, 0).host));
}
