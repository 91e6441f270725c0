// A model that answers with the words of its prompt, in upper case, behind the real HTTP front ends.

import { setImmediate as pause } from "node:timers/promises";
import OpenAI from "openai";
import { asideHere } from "../../../core/aside.ts";
import { fail } from "../../../core/errors.ts";
import { type Chance, silentLog, type World } from "../../../core/world.ts";
import { openGrpcNetwork } from "../../../protocol/grpc.ts";
import type { Caller } from "../../../protocol/network.ts";
import { firstOf } from "../../../protocol/server/http.ts";
import { openMemoryStore } from "../../../store/memory.ts";
import { backgroundTimers } from "../../../system/timers.ts";
import { ApiKeys } from "../../rights/keys.ts";
import { type EmbedRequest, NoSuchModel, PromptTooLong, type TextGenerator, type TextRequest } from "../text.ts";
import { ollamaHandler } from "./ollama.ts";
import { openAiHandler } from "./openai.ts";
import { allowedPages, forPages } from "./origins.ts";

let draws = 0;
const chance: Chance = { bytes: (count) => new Uint8Array(count).fill(++draws), uniform: () => 0.5 };
/** The time that requests are counted by. */
export const time = { nowMs: 0 };
const world: World = {
  clock: { wallMs: () => 1_700_000_000_000 + time.nowMs, monotonicMs: () => time.nowMs },
  timers: { after: () => () => {} },
  chance,
  log: silentLog,
};

function textOf({ prompt }: TextRequest): string {
  return typeof prompt === "object" && "turns" in prompt ? (prompt.turns.at(-1)?.content ?? "") : String(prompt);
}

/** Answers with the words of the prompt, in upper case, one at a time. */
export class Echo implements TextGenerator {
  seen: TextRequest[] = [];
  embedded: EmbedRequest[] = [];
  aborted = false;
  running = 0;
  runningMost = 0;

  async models() {
    return [{ name: "echo", createdWallMs: 1_700_000_000_000, context: 64, status: "ready", reason: "" }];
  }

  async *generate(request: TextRequest, signal: AbortSignal) {
    this.seen.push(request);
    if (request.model !== "echo") throw new NoSuchModel(`there is no model "${request.model}"`);
    if (request.prompt === "too many") fail("resource_exhausted", "32 requests are waiting already: try again");
    if (request.prompt === "too long") throw new PromptTooLong("the prompt has 99 tokens, at most 63 are taken");
    if (request.prompt === "nobody there") fail("unavailable", "the PNodes of the model are gone");
    if (textOf(request) === "call weather" && (request.prompt as { tools?: unknown }).tools) {
      const calls = [{ name: "weather", arguments: '{"city":"Nantucket"}' }];
      yield { text: "", tokens: [1], promptTokens: 3, generatedTokens: 1, calls, finish: "tool_calls" as const };
      return;
    }
    if (request.prompt === "taken") fail("aborted", "somebody else was faster");
    this.running++;
    this.runningMost = Math.max(this.runningMost, this.running);
    try {
      yield* this.#words(request, signal);
    } finally {
      this.running--;
    }
  }

  /** A direction that the text's length decides. */
  async embed(request: EmbedRequest, signal: AbortSignal) {
    this.embedded.push(request);
    if (request.model !== "echo") throw new NoSuchModel(`there is no model "${request.model}"`);
    if (request.prompt === "too long" && !request.truncate)
      throw new PromptTooLong("the prompt has 99 tokens, at most 64 are taken");
    if (signal.aborted) fail("cancelled", "nobody waits");
    this.running++;
    this.runningMost = Math.max(this.runningMost, this.running);
    await pause();
    this.running--;
    const angle = request.prompt.length;
    return { vector: [Math.fround(Math.cos(angle)), Math.fround(Math.sin(angle)), 0], promptTokens: angle };
  }

  async *#words(request: TextRequest, signal: AbortSignal) {
    signal.addEventListener("abort", () => {
      this.aborted = true;
    });
    const words = textOf(request).toUpperCase().split(" ").slice(0, request.maxTokens);
    for (const [index, word] of words.entries()) {
      const last = index === words.length - 1 && request.prompt !== "endless";
      const text = index === 0 ? word : ` ${word}`;
      // Half a character, or the beginning of a stop word: a token without text.
      yield { text: "", tokens: [index], promptTokens: 3, generatedTokens: index };
      const top = [{ text: "the", bytes: [116, 104, 101], logprob: -0.5 }].slice(0, request.topLogprobs ?? 0);
      const logprobs = [{ text, bytes: [...Buffer.from(text)], logprob: -index, top }];
      yield {
        text,
        ...(request.topLogprobs === undefined ? {} : { logprobs }),
        tokens: [index],
        promptTokens: 3,
        generatedTokens: index + 1,
        ...(last ? { finish: "stop" as const } : {}),
      };
      while (request.prompt === "endless" && !signal.aborted) {
        await pause();
        yield { text: ".", tokens: [1], promptTokens: 1, generatedTokens: 1 };
      }
    }
  }
}

export async function withApi(
  open: boolean,
  run: (context: { client: OpenAI; echo: Echo; keys: ApiKeys; url: string }) => Promise<void>,
) {
  const echo = new Echo();
  const keys = new ApiKeys(openMemoryStore(), world, open);
  const served = {
    ...{ world, generator: echo, keys, checkModel: async () => {}, aside: asideHere },
    identify: async (caller: Caller) => caller,
  };
  const allowsPage = allowedPages(["https://chat.example"]);
  const network = openGrpcNetwork({ timers: backgroundTimers, allowsPage });
  const server = await network.serve(
    "127.0.0.1:0",
    [],
    forPages(firstOf(openAiHandler(served), ollamaHandler(served)), allowsPage),
  );
  const url = `http://${server.address}/v1`;
  try {
    await run({ client: new OpenAI({ baseURL: url, apiKey: "none", maxRetries: 0 }), echo, keys, url });
  } finally {
    await network.close();
    await server.close();
  }
}
