// Bodies with many texts, as a work for another thread (core/aside.ts): a few megabytes of brackets take longer to read than anybody may hold
// the one that answers heartbeats.

import type { Lane, Work } from "../../../core/aside.ts";
import { fail } from "../../../core/errors.ts";

type Body = Readonly<Record<string, unknown>>;

/** Far beyond any context; the rest would only be read to be refused. So much is read at once in a hundredth of a second or two. */
export const bodyBytesMax = 512 << 10;
/** Texts of one request, as many as OpenAI takes. */
export const textsMax = 2_048;

const lane: Lane = { name: "bodies", memoryMib: 512, idleMs: 600_000 };

export interface LongBody {
  readonly content: Uint8Array;
  /** The parameter that is a text or a list of token ids, or a list of those. */
  readonly name: string;
}

/**
 * The body without its texts, as JSON, then these one by one, one more than are taken at most. Where they are neither texts nor ids their
 * list is empty, which is refused like them.
 */
export const readingTexts: Work<LongBody, string | readonly number[]> = {
  lane,
  module: import.meta.url,
  name: "readingTexts",
  what: "the request",
  deadlineMs: 2_000,
  run: function* ({ content, name }) {
    const body = bodyIn(content);
    const texts = textsIn(body[name]);
    const rest = JSON.stringify(texts ? { ...body, [name]: [] } : body);
    if (rest.length > bodyBytesMax)
      fail("invalid_argument", `beside its ${name} the request has more than ${bodyBytesMax >> 10} KB: shorten it`);
    yield rest;
    yield* texts ?? [];
  },
};

function textsIn(given: unknown): readonly (string | readonly number[])[] | undefined {
  if (typeof given === "string" || isTokenList(given)) return [given];
  if (!Array.isArray(given)) return undefined;
  const texts: unknown[] = given.slice(0, textsMax + 1);
  return texts.every(isText) || texts.every(isTokenList) ? texts : [];
}

export function bodyIn(content: Uint8Array): Body {
  try {
    const body: unknown = JSON.parse(Buffer.from(content.buffer, content.byteOffset, content.byteLength).toString());
    if (body !== null && typeof body === "object" && !Array.isArray(body)) return body as Body;
  } catch {
    // Falls through to the sentence below.
  }
  return fail("invalid_argument", "the request's body must be a JSON object");
}

export function isTokenList(value: unknown): value is number[] {
  return (
    Array.isArray(value) && value.length > 0 && value.every((id) => Number.isInteger(id) && id >= 0 && id < 2 ** 31)
  );
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}
