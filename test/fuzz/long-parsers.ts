// Requests and answers of megabytes: they may take long, and no turn of the thread may.

import { Echo } from "../../src/orchestrator/serving/http/echo.testing.ts";
import { textsMax } from "../../src/orchestrator/serving/http/works.ts";
import type { EmbedRequest } from "../../src/orchestrator/serving/text.ts";
import { openAside } from "../../src/system/threads/aside.ts";
import { atOnce } from "./findings.ts";
import { bodyParser } from "./front-ends.ts";
import type { Parser } from "./parsers.ts";

/** A model as wide as usual ones for vectors. */
class Wide extends Echo {
  readonly #vector = Array.from({ length: 768 }, (_, i) => Math.fround(i / 7));

  override async embed(request: EmbedRequest, signal: AbortSignal) {
    return { ...(await super.embed(request, signal)), vector: this.#vector };
  }
}

/** JSON that takes the longest to read for its length, as what somebody asks vectors for. */
const slow = ["{},", "[[[[[[[[]]]]]]]],", '{"a":1},', "7,", '"a",'];
const longBytes = 4 << 20;

export function openLongParsers(): Parser[] {
  const aside = openAside();
  const texts = (count: number, text: string) =>
    Buffer.from(JSON.stringify({ model: "echo", input: Array.from({ length: count }, () => text) }));
  const odd = slow.map((part) =>
    Buffer.from(`{"model":"echo","input":[${part.repeat(longBytes / part.length)}${part.slice(0, -1)}]}`),
  );
  const long = bodyParser("/v1/embeddings", [texts(9, "a whale ".repeat(32 << 10)), ...odd], { aside });
  const many = bodyParser("/v1/embeddings", [texts(textsMax, "a whale")], { aside, generator: new Wide() });
  return [
    { ...long, name: "a body of megabytes", costly: true, held: atOnce, close: () => void aside.close() },
    { ...many, name: "an answer of megabytes", costly: true, held: atOnce },
  ];
}
