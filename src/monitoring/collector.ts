// Where traces go, by OpenTelemetry's own environment variables. Nothing is sent unless one of them, or a flag, says so.

import { fail } from "../core/errors.ts";

export interface Collector {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
}

export function collectorFrom(
  environment: Readonly<Record<string, string | undefined>>,
  flag?: string,
): Collector | undefined {
  const base = flag || environment["OTEL_EXPORTER_OTLP_ENDPOINT"];
  const whole = flag ? undefined : environment["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"];
  if (environment["OTEL_SDK_DISABLED"] === "true" || (!base && !whole)) return undefined;
  const url = whole || `${base?.replace(/\/+$/, "")}/v1/traces`;
  if (!/^https?:\/\//.test(url) || !URL.canParse(url))
    fail("invalid_argument", `the OTLP endpoint must be an http or https address, not "${url}"`);
  const given = environment["OTEL_EXPORTER_OTLP_TRACES_HEADERS"] ?? environment["OTEL_EXPORTER_OTLP_HEADERS"] ?? "";
  return { url, headers: headersFrom(given) };
}

/** "key1=value1,key2=value2", values percent-encoded. */
function headersFrom(text: string): Record<string, string> {
  const pairs = text.split(",").filter((pair) => pair.includes("="));
  return Object.fromEntries(
    pairs.map((pair) => {
      const at = pair.indexOf("=");
      return [pair.slice(0, at).trim().toLowerCase(), decoded(pair.slice(at + 1).trim())];
    }),
  );
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
