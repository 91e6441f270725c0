// What monitoring systems ask a process for, on its one port: /metrics, /healthz (it runs) and /readyz (it can work).

import type { MetricRegistry } from "./registry.ts";

export interface Monitored {
  readonly registry: MetricRegistry;
  /** Why it cannot work now, a sentence each; empty when it can. */
  readonly unready: () => readonly string[];
}

export function monitoringHandler({ registry, unready }: Monitored) {
  return async (request: Request): Promise<Response | undefined> => {
    if (request.method !== "GET" && request.method !== "HEAD") return undefined;
    switch (new URL(request.url).pathname) {
      case "/metrics":
        return answer(200, registry.render(), "text/plain; version=0.0.4; charset=utf-8", request);
      case "/healthz":
        return answer(200, "ok\n", "text/plain; charset=utf-8", request);
      case "/readyz": {
        const problems = unready();
        const text = problems.length === 0 ? "ready\n" : `${problems.join("\n")}\n`;
        return answer(problems.length === 0 ? 200 : 503, text, "text/plain; charset=utf-8", request);
      }
      default:
        return undefined;
    }
  };
}

function answer(status: number, text: string, type: string, request: Request): Response {
  const headers = { "content-type": type, "cache-control": "no-store", "x-content-type-options": "nosniff" };
  return new Response(request.method === "HEAD" ? null : text, { status, headers });
}
