// Traces of somebody who is not trusted, read and written anew before they go to their owner's collector with what that wants to be shown: spans as
// traces.ts makes them, so many and so long, and nothing else that a server might take for something.

import { fail } from "../core/errors.ts";

type Rewritten<Value> = (given: unknown) => Value;

const spansMax = 4_096;
const attributesMax = 32;
/** Names of VNodes and sessions are shorter; why work failed may be told at length. */
const textLengthMax = 1_024;

/** The body of a request as OTLP has it over HTTP in JSON. Fails for what is none. */
export function rewrittenTraces(body: string): string {
  return JSON.stringify(request(read(body)));
}

function read(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return refuse("is no JSON");
  }
}

const text: Rewritten<string> = (given) =>
  typeof given === "string" ? given.slice(0, textLengthMax).toWellFormed() : refuse("has something else for a text");

const matching =
  (pattern: RegExp): Rewritten<string> =>
  (given) =>
    typeof given === "string" && pattern.test(given) ? given : refuse(`has something else for ${pattern}`);

const traceId = matching(/^[0-9a-f]{32}$/);
const spanId = matching(/^[0-9a-f]{16}$/);
const whole = matching(/^-?\d{1,20}$/);
const attributeName = matching(/^[a-z][\w.]{0,63}$/);

const list =
  <Value>(most: number, each: Rewritten<Value>): Rewritten<Value[]> =>
  (given) =>
    Array.isArray(given) && given.length <= most ? given.map(each) : refuse(`has no list of at most ${most}`);

const object =
  <Value>(of: (given: Readonly<Record<string, unknown>>) => Value): Rewritten<Value> =>
  (given) =>
    typeof given === "object" && given !== null && !Array.isArray(given)
      ? of(given as Record<string, unknown>)
      : refuse("has something else for an object");

const attributes = list(
  attributesMax,
  object(({ key, value }) => ({
    key: attributeName(key),
    value: object(({ stringValue, intValue }) =>
      intValue === undefined ? { stringValue: text(stringValue) } : { intValue: whole(intValue) },
    )(value),
  })),
);

const span = object((given) => ({
  ...{ traceId: traceId(given["traceId"]), spanId: spanId(given["spanId"]) },
  ...(given["parentSpanId"] !== undefined && { parentSpanId: spanId(given["parentSpanId"]) }),
  name: text(given["name"]),
  kind: 1,
  startTimeUnixNano: whole(given["startTimeUnixNano"]),
  endTimeUnixNano: whole(given["endTimeUnixNano"]),
  attributes: attributes(given["attributes"]),
  ...(given["status"] !== undefined && {
    status: object(({ message }) => ({ code: 2, message: text(message) }))(given["status"]),
  }),
}));

const request = object(({ resourceSpans }) => ({
  resourceSpans: list(
    1,
    object(({ resource, scopeSpans }) => ({
      resource: object((given) => ({ attributes: attributes(given["attributes"]) }))(resource),
      scopeSpans: list(
        1,
        object(({ spans }) => ({ scope: { name: "dcnr" }, spans: list(spansMax, span)(spans) })),
      )(scopeSpans),
    })),
  )(resourceSpans),
}));

function refuse(why: string): never {
  fail("invalid_argument", `what should go to the collector of traces ${why}: it is not sent`);
}
