// Which HTTP requests are let in at all. Browsers can be tricked into calling a server on someone's
// machine (DNS rebinding, cross-site posts), so what they ask there must name a host that we are.

import type { IncomingHttpHeaders } from "node:http";
import { isLoopback } from "../routes/address.ts";

/** Undefined to let the request in, otherwise the sentence that refuses it. */
export function admit(
  method: string,
  headers: IncomingHttpHeaders,
  boundHost: string,
  allowedHosts: readonly string[],
  isLocal: boolean,
  /** Whether a page of another site may ask this. */
  allowsPage: (origin: string) => boolean = () => false,
): string | undefined {
  const isRead = method === "GET" || method === "HEAD";
  const authority = String(headers[":authority"] ?? headers.host ?? "");
  // Probes of the old kind name no host.
  if (isRead && authority === "") return undefined;
  const host = hostOf(authority);
  if (host === undefined) return "refused: the request names no host";
  // Reading is open to whoever reaches the port, under any name. Callers on this machine may read more, and a page whose
  // name was made to lead here must not do so through their browsers.
  if (isRead && !isLocal) return undefined;
  if (!isOurs(host, boundHost, allowedHosts))
    return `refused: this server is not ${host}. Start it with --allow-host ${host} if it should be`;
  const origin = headers.origin;
  if (isRead || origin === undefined || allowsPage(origin)) return undefined;
  if (hostOf(origin.replace(/^https?:\/\//, "")) !== host || !originMatches(origin, authority))
    return `refused: a page of ${origin.slice(0, 100)} may not call this server`;
  return undefined;
}

function originMatches(origin: string, authority: string): boolean {
  return origin.replace(/^https?:\/\//, "") === authority;
}

function hostOf(authority: string): string | undefined {
  const match = /^(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9_.-]+)(?::\d+)?$/.exec(authority);
  // "127.0.0.1:99999" and "[:::]" look like hosts and are none; whoever makes an address of them would fail.
  if (!URL.canParse(`http://${authority}`)) return undefined;
  return match?.[1]?.replace(/^\[|\]$/g, "").toLowerCase();
}

/** Names are listed; literal addresses cannot be rebound, so they are fine on a server that is not loopback only. */
function isOurs(host: string, boundHost: string, allowedHosts: readonly string[]): boolean {
  if (isLoopback(host) || host === boundHost.toLowerCase() || allowedHosts.includes(host)) return true;
  const isLiteral = host.includes(":") || /^\d+\.\d+\.\d+\.\d+$/.test(host);
  return isLiteral && !isLoopback(boundHost);
}
