import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI from "openai";
import { fail } from "../../core/errors.ts";
import { type Chance, silentLog, type World } from "../../core/world.ts";
import { openGrpcNetwork } from "../../protocol/grpc.ts";
import { openMemoryStore } from "../../store/memory.ts";
import { backgroundTimers } from "../../system/timers.ts";
import { ApiKeys } from "./keys.ts";
import { openAiHandler } from "./openai.ts";
import type { TextGenerator, TextRequest } from "./text.ts";

let draws = 0;
const chance: Chance = { bytes: (count) => new Uint8Array(count).fill(++draws), uniform: () => 0.5 };
let nowMs = 0;
const world: World = {
  clock: { wallMs: () => 1_700_000_000_000 + nowMs, monotonicMs: () => nowMs },
  timers: { after: () => () => {} },
  chance,
  log: silentLog,
};

function textOf({ prompt }: TextRequest): string {
  return typeof prompt === "object" && "turns" in prompt ? (prompt.turns.at(-1)?.content ?? "") : String(prompt);
}

/** Answers with the words of the prompt, in upper case, one at a time. */
class Echo implements TextGenerator {
  seen: TextRequest[] = [];
  aborted = false;

  async models() {
    return [{ name: "echo", createdWallMs: 1_700_000_000_000, context: 64, status: "ready", reason: "" }];
  }

  async *generate(request: TextRequest, signal: AbortSignal) {
    this.seen.push(request);
    if (request.model !== "echo") fail("not_found", `there is no model "${request.model}"`);
    if (request.prompt === "too many") fail("resource_exhausted", "32 requests are waiting already: try again");
    signal.addEventListener("abort", () => {
      this.aborted = true;
    });
    const words = textOf(request).toUpperCase().split(" ").slice(0, request.maxTokens);
    for (const [index, word] of words.entries()) {
      const last = index === words.length - 1 && request.prompt !== "endless";
      const text = index === 0 ? word : ` ${word}`;
      // Half a character, or the beginning of a stop word: a token without text.
      yield { text: "", tokens: [index], promptTokens: 3, generatedTokens: index };
      yield {
        text,
        tokens: [index],
        promptTokens: 3,
        generatedTokens: index + 1,
        ...(last ? { finish: "stop" as const } : {}),
      };
      while (request.prompt === "endless" && !signal.aborted) {
        await new Promise((resolve) => setImmediate(resolve));
        yield { text: ".", tokens: [1], promptTokens: 1, generatedTokens: 1 };
      }
    }
  }
}

async function withApi(
  open: boolean,
  run: (context: { client: OpenAI; echo: Echo; keys: ApiKeys; url: string }) => Promise<void>,
) {
  const echo = new Echo();
  const keys = new ApiKeys(openMemoryStore(), world, open);
  const network = openGrpcNetwork({ timers: backgroundTimers });
  const server = await network.serve("127.0.0.1:0", [], openAiHandler({ world, generator: echo, keys }));
  const url = `http://${server.address}/v1`;
  try {
    await run({ client: new OpenAI({ baseURL: url, apiKey: "none", maxRetries: 0 }), echo, keys, url });
  } finally {
    await network.close();
    await server.close();
  }
}

test("the official client lists models and completes a prompt", () =>
  withApi(true, async ({ client }) => {
    const models = await client.models.list();
    assert.deepEqual(
      models.data.map((model) => model.id),
      ["echo"],
    );
    assert.equal((await client.models.retrieve("echo")).id, "echo");
    await assert.rejects(client.models.retrieve("none"), OpenAI.NotFoundError);
    const answer = await client.completions.create({ model: "echo", prompt: "call me ishmael", max_tokens: 8 });
    assert.equal(answer.choices[0]?.text, "CALL ME ISHMAEL");
    assert.equal(answer.choices[0]?.finish_reason, "stop");
    assert.deepEqual(answer.usage, { prompt_tokens: 3, completion_tokens: 3, total_tokens: 6 });
  }));

test("the official client streams a chat, piece by piece, with usage at the end", () =>
  withApi(true, async ({ client, echo }) => {
    const stream = await client.chat.completions.create({
      model: "echo",
      messages: [{ role: "user", content: "call me ishmael" }],
      stream: true,
      stream_options: { include_usage: true },
      temperature: 0.5,
      seed: 11,
    });
    const pieces: string[] = [];
    let usage: unknown;
    for await (const chunk of stream) {
      pieces.push(chunk.choices[0]?.delta.content ?? "");
      usage = chunk.usage ?? usage;
    }
    assert.equal(pieces.join(""), "CALL ME ISHMAEL");
    assert.ok(pieces.filter(Boolean).length === 3, "three words came in three pieces");
    assert.deepEqual(usage, { prompt_tokens: 3, completion_tokens: 3, total_tokens: 6 });
    assert.deepEqual(echo.seen[0]?.sampling, { temperature: 0.5, topP: 1, topK: 0, repetitionPenalty: 1, seed: 11 });
  }));

test("bad requests are refused with OpenAI's error shape", () =>
  withApi(true, async ({ client, url }) => {
    await assert.rejects(client.completions.create({ model: "echo", prompt: "x", max_tokens: 1_000_000 }), (error) => {
      assert.ok(error instanceof OpenAI.BadRequestError);
      assert.match(error.message, /max_tokens is 1000000, at most 65536/);
      return true;
    });
    await assert.rejects(client.completions.create({ model: "none", prompt: "x" }), OpenAI.NotFoundError);
    await assert.rejects(client.completions.create({ model: "echo", prompt: "too many" }), OpenAI.RateLimitError);
    await assert.rejects(
      client.chat.completions.create({ model: "echo", messages: [{ role: "user", content: "x".repeat(1 << 20) }] }),
      OpenAI.BadRequestError,
    );
    const broken = await fetch(`${url}/completions`, { method: "POST", body: "{" });
    assert.equal(broken.status, 400);
    assert.equal(((await broken.json()) as { error: { type: string } }).error.type, "invalid_request_error");
    assert.equal((await fetch(`${url}/nothing`)).status, 404);
  }));

test("a client that goes away mid-stream ends the computation for it", () =>
  withApi(true, async ({ client, echo }) => {
    const stream = await client.completions.create({ model: "echo", prompt: "endless", stream: true });
    let pieces = 0;
    for await (const _ of stream) if (++pieces === 5) break;
    while (!echo.aborted) await new Promise((resolve) => setImmediate(resolve));
    assert.ok(echo.aborted);
  }));

test("beyond loopback a key with the right scope is needed, and its rate is kept", () =>
  withApi(false, async ({ client, keys, url }) => {
    await assert.rejects(client.models.list(), OpenAI.AuthenticationError);
    const trainer = await keys.create("trainer", ["train"], 0);
    const without = new OpenAI({ baseURL: url, apiKey: trainer.secret, maxRetries: 0 });
    await assert.rejects(without.models.list(), OpenAI.PermissionDeniedError);
    const { key, secret } = await keys.create("app", ["generate"], 2);
    const app = new OpenAI({ baseURL: url, apiKey: secret, maxRetries: 0 });
    await app.models.list();
    await app.models.list();
    await assert.rejects(app.models.list(), OpenAI.RateLimitError);
    nowMs += 30_000;
    await app.models.list();
    await keys.delete(key.id);
    await assert.rejects(app.models.list(), OpenAI.AuthenticationError);
    assert.deepEqual(
      (await keys.list()).map(({ name }) => name),
      ["trainer"],
    );
  }));
