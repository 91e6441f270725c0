// Addresses as people write them: "host:port", "[::1]:port", optionally with http:// or https:// in front.

import { fail } from "../core/errors.ts";

export interface Address {
  readonly host: string;
  readonly port: number;
  readonly secure: boolean;
}

export function parseAddress(text: string, portDefault?: number): Address {
  const scheme = /^(https?):\/\//.exec(text);
  const rest = (scheme ? text.slice(scheme[0].length) : text).replace(/\/+$/, "");
  const match = /^(\[[0-9a-fA-F:.%]+\]|[^:[\]/\s]+)(?::(\d{1,5}))?$/.exec(rest);
  const port = match?.[2] === undefined ? portDefault : Number(match[2]);
  if (!match?.[1] || port === undefined || port > 65_535)
    fail("invalid_argument", `"${text}" is not an address: write host:port, for example 127.0.0.1:7700`);
  return { host: match[1].replace(/^\[|\]$/g, ""), port, secure: scheme?.[1] === "https" };
}

export function formatAddress(host: string, port: number): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}

export function baseUrl(text: string): string {
  const { host, port, secure } = parseAddress(text, secureDefaultPort(text));
  return `${secure ? "https" : "http"}://${formatAddress(host, port)}`;
}

function secureDefaultPort(text: string): number | undefined {
  return text.startsWith("https://") ? 443 : undefined;
}

/** Means "all interfaces" where a server listens, and nobody where one calls. */
export function isUnspecified(host: string): boolean {
  return host === "0.0.0.0" || /^[0:]+$/.test(host);
}

export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || /^127\.\d+\.\d+\.\d+$/.test(host);
}
