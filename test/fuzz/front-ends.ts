// The front ends of served models, asked as HTTP asks them, with a model that answers with its prompt.

import { type Aside, asideHere } from "../../src/core/aside.ts";
import { DcnrError } from "../../src/core/errors.ts";
import type { World } from "../../src/core/world.ts";
import { ApiKeys } from "../../src/orchestrator/rights/keys.ts";
import { Echo } from "../../src/orchestrator/serving/http/echo.testing.ts";
import { ollamaHandler } from "../../src/orchestrator/serving/http/ollama.ts";
import { openAiHandler } from "../../src/orchestrator/serving/http/openai.ts";
import { type Caller, type HttpHandler, uncounted } from "../../src/protocol/network.ts";
import { openMemoryStore } from "../../src/store/memory.ts";
import type { Parser } from "./parsers.ts";

/** Between two requests, so that no rate is exceeded. */
const hourMs = 3_600_000;

/** One of the front ends, asked as HTTP asks it. What it logs as an error of its own is one. */
export function bodyParser(
  path: string,
  samples: readonly Uint8Array[],
  { aside = asideHere, generator = new Echo() }: { readonly aside?: Aside; readonly generator?: Echo } = {},
): Parser {
  let broken: string | undefined;
  let draws = 0;
  const world: World = {
    clock: { wallMs: () => 1_700_000_000_000, monotonicMs: () => draws * hourMs },
    timers: { after: () => () => {} },
    chance: { bytes: (count) => new Uint8Array(count).fill(++draws), uniform: () => 0.5 },
    log: (level, message) => {
      if (level === "error") broken = message;
    },
  };
  const served = {
    ...{ world, generator, keys: new ApiKeys(openMemoryStore(), world, true), checkModel: async () => {} },
    aside,
    identify: async (caller: Caller) => caller,
  };
  const handler: HttpHandler = path.startsWith("/v1/") ? openAiHandler(served) : ollamaHandler(served);
  return {
    name: `POST ${path}`,
    samples,
    parse: async (body) => {
      broken = undefined;
      draws++;
      served.generator.seen = [];
      served.generator.embedded = [];
      const answer = await handler(
        new Request(`http://localhost${path}`, { method: "POST", body: new Uint8Array(body) }),
        "127.0.0.1",
        uncounted,
      );
      const said = await answer?.text();
      if (broken !== undefined) throw new Error(broken);
      if (answer?.ok !== true) throw new DcnrError("invalid_argument", said ?? "nobody answers");
    },
  };
}
