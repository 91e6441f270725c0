// Pages of other sites that may ask served models, if whoever runs the orchestrator named their origins: the paths of answers and
// no others, so that no page can train, stop or read anything.

import { fail } from "../../../core/errors.ts";
import type { HttpHandler } from "../../../protocol/network.ts";

/** As browsers write it. A page's address leads to it, "*" names nobody. */
export function parseOrigin(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol) || url.origin !== text)
    fail(
      "invalid_argument",
      `--allow-origin takes an origin such as https://chat.example, not "${text.slice(0, 100)}"`,
    );
  return url.origin;
}

/** Whether a page of this origin may call this path. */
export type AllowsPage = (origin: string, path: string) => boolean;

export function allowedPages(origins: readonly string[]): AllowsPage {
  const known = new Set(origins);
  return (origin, path) => known.has(origin) && /^\/(v1|api)\//.test(path);
}

/** How long a browser need not ask again. */
const preflightSeconds = 600;

/** Answers what browsers ask before a page may ask, and says on each answer that the page may read it. */
export function forPages(handler: HttpHandler, allows: AllowsPage): HttpHandler {
  return async (request, peer, counted) => {
    const origin = request.headers.get("origin");
    if (origin === null || !allows(origin, new URL(request.url).pathname)) return handler(request, peer, counted);
    const isPreflight = request.method === "OPTIONS" && request.headers.has("access-control-request-method");
    const answer = isPreflight ? preflight() : await handler(request, peer, counted);
    answer?.headers.set("access-control-allow-origin", origin);
    answer?.headers.append("vary", "origin");
    answer?.headers.set("access-control-expose-headers", "x-request-id, retry-after");
    return answer;
  };
}

function preflight(): Response {
  const headers = {
    "access-control-allow-methods": "GET, POST",
    // Clients of OpenAI send headers about themselves, whose names change with every version; none of them decides anything.
    "access-control-allow-headers": "*, authorization, content-type",
    "access-control-max-age": String(preflightSeconds),
  };
  return new Response(null, { status: 204, headers });
}
