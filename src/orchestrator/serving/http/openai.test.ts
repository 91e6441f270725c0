import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI from "openai";
import { greedy } from "../../../models/sampling.ts";
import { maxTokensDefault, maxTokensMax, type TextRequest } from "../text.ts";
import { time, withApi } from "./echo.testing.ts";

test("the official client lists models and completes a prompt", () =>
  withApi(true, async ({ client }) => {
    const models = await client.models.list();
    assert.deepEqual(
      models.data.map((model) => model.id),
      ["echo"],
    );
    const shown = (await client.models.retrieve("echo")) as OpenAI.Model & { context_length?: number };
    assert.equal(shown.id, "echo");
    assert.equal(shown.context_length, 64, "clients see how much it takes");
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
      frequency_penalty: 0.5,
      presence_penalty: -1,
      logit_bias: { 0: 5, 7: -100 },
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
    const { sampling } = echo.seen[0] as TextRequest;
    assert.deepEqual(sampling, {
      ...{ ...greedy, temperature: 0.5, seed: 11 },
      ...{ frequencyPenalty: 0.5, presencePenalty: -1, logitBias: { 0: 5, 7: -100 } },
    });
  }));

/** What the client makes of an error: all that a program can decide by. */
function refusal(status: number, code: string, param: string | null) {
  return (error: unknown) => {
    assert.ok(error instanceof OpenAI.APIError, String(error));
    assert.deepEqual({ status: error.status, code: error.code, param: error.param }, { status, code, param });
    if (status < 429) assert.equal(error.type, "invalid_request_error");
    return true;
  };
}

test("a turn of which nothing is said is not cut, a prompt's continuation is", () =>
  withApi(true, async ({ client, echo }) => {
    await client.chat.completions.create({ model: "echo", messages: [{ role: "user", content: "call me" }] });
    await client.responses.create({ model: "echo", input: "call me" });
    await client.completions.create({ model: "echo", prompt: "call me" });
    assert.deepEqual(
      echo.seen.map(({ maxTokens }) => maxTokens),
      [maxTokensMax, maxTokensMax, maxTokensDefault],
    );
  }));

test("bad requests are refused with OpenAI's error shape and codes", () =>
  withApi(true, async ({ client, url }) => {
    const complete = (change: object) => client.completions.create({ model: "echo", prompt: "x", ...change });
    await assert.rejects(complete({ max_tokens: 1_000_000 }), (error) => {
      assert.match((error as Error).message, /max_tokens is 1000000, at most 65536/);
      return refusal(400, "invalid_value", "max_tokens")(error);
    });
    for (const model of ["none", "owner/none", "no such model"])
      await assert.rejects(complete({ model }), refusal(404, "model_not_found", "model"));
    await assert.rejects(client.models.retrieve("none"), refusal(404, "model_not_found", "model"));
    await assert.rejects(complete({ prompt: "too long" }), refusal(400, "context_length_exceeded", null));
    for (const [prompt, status, code] of [
      ["too many", 429, "rate_limit_exceeded"],
      ["nobody there", 503, "service_unavailable"],
      // 409 would fit, and would be repeated at once.
      ["taken", 503, "service_unavailable"],
    ] as const)
      await assert.rejects(complete({ prompt }), (error) => {
        assert.equal((error as InstanceType<typeof OpenAI.APIError>).headers?.get("retry-after"), "1");
        return refusal(status, code, null)(error);
      });
    await assert.rejects(complete({ prompt: "x".repeat(1 << 20) }), refusal(400, "request_too_large", null));
    await assert.rejects(complete({ model: undefined }), refusal(400, "missing_required_parameter", "model"));
    await assert.rejects(complete({ prompt: null }), refusal(400, "missing_required_parameter", "prompt"));
    const ids = await Promise.all([fetch(`${url}/models`), fetch(`${url}/nothing`)]);
    const [one, other] = ids.map((response) => response.headers.get("x-request-id"));
    assert.ok(one?.startsWith("req_") && other?.startsWith("req_") && one !== other, "errors have one too");
    const broken = await fetch(`${url}/completions`, { method: "POST", body: "{" });
    assert.equal(broken.status, 400);
    assert.equal(((await broken.json()) as { error: { type: string } }).error.type, "invalid_request_error");
    assert.equal((await fetch(`${url}/nothing`)).status, 404);
    assert.equal((await fetch(`${url}/models/%`)).status, 404);
  }));

const tool = { type: "function", function: { name: "weather", parameters: { type: "object" } } };

const called = (name: string, given: string) => ({
  id: "1",
  type: "function" as const,
  function: { name, arguments: given },
});

const refusedEverywhere = {
  service_tier: "flex",
  user: 7,
  metadata: "none",
};
const refusedInCompletions = { ...refusedEverywhere, suffix: "end", best_of: 2 };
const refusedInChats = {
  ...refusedEverywhere,
  modalities: ["text", "audio"],
  tool_choice: { type: "allowed_tools", tools: [] },
  parallel_tool_calls: "yes",
  functions: [tool.function],
  function_call: { name: "weather" },
  reasoning_effort: "high",
  verbosity: "low",
  audio: { voice: "alloy", format: "wav" },
  moderation: { model: "omni" },
  prediction: { type: "content", content: "x" },
  web_search_options: {},
  store: 1,
};
const messages = [{ role: "user" as const, content: "call me" }];

test("what cannot be done is refused by its name, in completions and in chats", () =>
  withApi(true, async ({ client, echo }) => {
    const complete = (change: object) => client.completions.create({ model: "echo", prompt: "x", ...change });
    const chat = (change: object) => client.chat.completions.create({ model: "echo", messages, ...change });
    for (const [name, value] of Object.entries(refusedInCompletions))
      await assert.rejects(complete({ [name]: value }), refusal(400, "unsupported_parameter", name), name);
    for (const [name, value] of Object.entries(refusedInChats))
      await assert.rejects(chat({ [name]: value }), refusal(400, "unsupported_parameter", name), name);
    // Those of the other endpoint, names of other servers, and names that every JavaScript object has.
    for (const name of ["messages", "tools", "min_p", "constructor", "temprature"])
      await assert.rejects(complete({ [name]: null }), refusal(400, "unknown_parameter", name), name);
    for (const name of ["prompt", "echo", "best_of", "suffix", "min_p", "toString"])
      await assert.rejects(chat({ [name]: 1 }), refusal(400, "unknown_parameter", name), name);
    const saying = (fields: object) => chat({ messages: [...messages, { role: "user", content: "x", ...fields }] });
    for (const [fields, code, param] of [
      [{ name: "Ada" }, "unsupported_parameter", "messages[1].name"],
      [{ tool_calls: [{ id: "1" }] }, "unsupported_parameter", "messages[1].tool_calls"],
      [{ role: "assistant", tool_calls: [{ id: "1" }] }, "invalid_value", "messages[1].tool_calls[0]"],
      [
        { role: "assistant", tool_calls: [called("weather", "{")] },
        "invalid_value",
        "messages[1].tool_calls[0].function.arguments",
      ],
      [{ tool_call_id: "1" }, "unsupported_parameter", "messages[1].tool_call_id"],
      [{ role: "tool", tool_call_id: "1" }, "invalid_value", "messages[1].tool_call_id"],
      [{ mood: "glad" }, "unknown_parameter", "messages[1].mood"],
      [{ role: "tool" }, "invalid_value", "messages[1].tool_call_id"],
      [{ role: "critic" }, "invalid_value", "messages[1].role"],
      [{ content: [{ type: "image_url" }] }, "invalid_value", "messages[1].content[0]"],
      [{ content: [{ type: "text", text: "x", size: 2 }] }, "unknown_parameter", "messages[1].content[0].size"],
    ] as const)
      await assert.rejects(saying(fields), refusal(400, code, param), param);
    for (const [change, code, param] of [
      [{ stream: "yes" }, "invalid_value", "stream"],
      [{ stream_options: { include_usage: true } }, "invalid_value", "stream_options"],
      [{ stream: true, stream_options: { often: true } }, "unknown_parameter", "stream_options.often"],
      [{ max_tokens: 3, max_completion_tokens: 4 }, "invalid_value", "max_tokens"],
      [{ n: 0 }, "invalid_value", "n"],
      [{ n: 129 }, "invalid_value", "n"],
      [{ seed: 0.5 }, "invalid_value", "seed"],
      [{ frequency_penalty: 3 }, "invalid_value", "frequency_penalty"],
      [{ presence_penalty: "some" }, "invalid_value", "presence_penalty"],
      [{ logit_bias: { whale: 1 } }, "invalid_value", "logit_bias"],
      [{ logit_bias: { 5: 101 } }, "invalid_value", "logit_bias"],
      [{ logit_bias: [1] }, "invalid_value", "logit_bias"],
      [{ top_k: 1.5 }, "invalid_value", "top_k"],
      [{ temperature: "hot" }, "invalid_value", "temperature"],
      [{ logprobs: 3 }, "invalid_value", "logprobs"],
      [{ tools: [{}] }, "invalid_value", "tools[0]"],
      [{ tools: [{ ...tool, type: "custom" }] }, "unsupported_parameter", "tools[0].type"],
      [{ tools: [{ type: "function", function: { name: "no name" } }] }, "invalid_value", "tools[0].function.name"],
      [
        { tools: [{ type: "function", function: { name: "x", mood: 1 } }] },
        "unknown_parameter",
        "tools[0].function.mood",
      ],
      [
        { tools: [{ type: "function", function: { name: "x", strict: true } }] },
        "unsupported_parameter",
        "tools[0].function.strict",
      ],
      [{ tools: [tool, tool] }, "invalid_value", "tools"],
      [{ tool_choice: "required" }, "invalid_value", "tool_choice"],
      [
        { tools: [tool], tool_choice: { type: "function", function: { name: "none" } } },
        "invalid_value",
        "tool_choice",
      ],
      [
        { tools: [tool], tool_choice: "required", response_format: { type: "json_object" } },
        "invalid_value",
        "response_format",
      ],
      [{ response_format: "json" }, "invalid_value", "response_format"],
      [{ response_format: {} }, "missing_required_parameter", "response_format.type"],
      [{ response_format: { type: "grammar" } }, "unsupported_parameter", "response_format.type"],
      [{ response_format: { type: "json_schema" } }, "invalid_value", "response_format.json_schema"],
      [{ response_format: { type: "text", json_schema: {} } }, "invalid_value", "response_format.json_schema"],
      [
        { response_format: { type: "json_schema", json_schema: { schema: 3 } } },
        "invalid_value",
        "response_format.json_schema.schema",
      ],
      [
        { response_format: { type: "json_schema", json_schema: { name: "x", mode: 1 } } },
        "unknown_parameter",
        "response_format.json_schema.mode",
      ],
      [{ top_logprobs: 2 }, "invalid_value", "top_logprobs"],
      [{ logprobs: true, top_logprobs: 21 }, "invalid_value", "top_logprobs"],
    ] as const)
      await assert.rejects(chat(change), refusal(400, code, param), param);
    await assert.rejects(complete({ prompt: Array(65).fill("x"), n: 2 }), refusal(400, "invalid_value", "n"));
    await assert.rejects(complete({ logprobs: 6 }), refusal(400, "invalid_value", "logprobs"));
    await assert.rejects(complete({ echo: "yes" }), refusal(400, "invalid_value", "echo"));
    await assert.rejects(complete({ echo: true, logprobs: 1 }), refusal(400, "unsupported_parameter", "echo"));
    await assert.rejects(complete({ prompt: ["x", [1]] }), refusal(400, "invalid_value", "prompt"));
    assert.equal(echo.seen.length, 0, "nothing was computed");
  }));

test("values that ask for nothing, and names for the caller's own books, are accepted", () =>
  withApi(true, async ({ client, echo }) => {
    const off = {
      ...{ n: 1, frequency_penalty: 0, presence_penalty: 0, logit_bias: {}, user: "ada", metadata: { run: "7" } },
      ...{ service_tier: "auto" as const, safety_identifier: "hash", stop: null, seed: null, stream_options: null },
    };
    await client.completions.create({
      ...{ model: "echo", prompt: "call me", ...off },
      ...{ echo: false, best_of: 1, logprobs: null, suffix: null, max_tokens: null, top_p: null },
    });
    await client.chat.completions.create({
      ...{ model: "echo", ...off, logprobs: false, top_logprobs: null, tools: [], tool_choice: "none", store: true },
      ...{ response_format: { type: "text" }, modalities: ["text"], parallel_tool_calls: true, audio: null },
      // An answer of the API is sent back as it came.
      messages: [...messages, { role: "assistant", content: "ISHMAEL", refusal: null }, ...messages],
    });
    await client.completions.create({ model: "echo", prompt: "call me", top_p: 0 });
    assert.equal(echo.seen.length, 3);
    assert.deepEqual([echo.seen[2]?.sampling.topK, echo.seen[2]?.sampling.topP], [1, 1], "only the likeliest");
  }));

test("the official client reads probabilities, in chats and in completions, whole and streamed", () =>
  withApi(true, async ({ client, echo }) => {
    const asked = { model: "echo", messages, logprobs: true, top_logprobs: 1 };
    const chat = await client.chat.completions.create(asked);
    const the = { token: "the", logprob: -0.5, bytes: [116, 104, 101] };
    const expected = [
      { token: "CALL", logprob: -0, bytes: [67, 65, 76, 76], top_logprobs: [the] },
      { token: " ME", logprob: -1, bytes: [32, 77, 69], top_logprobs: [the] },
    ];
    const plain = (value: unknown) => JSON.parse(JSON.stringify(value));
    assert.deepEqual(plain(chat.choices[0]?.logprobs?.content), plain(expected));
    const streamed: unknown[] = [];
    for await (const { choices } of await client.chat.completions.create({ ...asked, stream: true }))
      streamed.push(...(choices[0]?.logprobs?.content ?? []));
    assert.deepEqual(streamed, plain(expected));
    const { choices } = await client.completions.create({ model: "echo", prompt: "call me", logprobs: 0 });
    assert.deepEqual(plain(choices[0]?.logprobs), {
      ...{ tokens: ["CALL", " ME"], token_logprobs: [0, -1], top_logprobs: [{}, {}], text_offset: [0, 4] },
    });
    const offsets: number[] = [];
    for await (const chunk of await client.completions.create({
      ...{ model: "echo", prompt: "call me", logprobs: 1, stream: true },
    }))
      offsets.push(...(chunk.choices[0]?.logprobs?.text_offset ?? []));
    assert.deepEqual(offsets, [0, 4]);
    assert.deepEqual(
      echo.seen.map(({ topLogprobs }) => topLogprobs),
      [1, 1, 0, 1],
    );
    const { choices: silent } = await client.chat.completions.create({ model: "echo", messages });
    assert.equal(silent[0]?.logprobs, null);
    await client.completions.create({ model: "echo", prompt: "call me", echo: true });
    assert.equal(echo.seen.at(-1)?.echo, true);
    await client.chat.completions.create({ model: "echo", messages, response_format: { type: "json_object" } });
    assert.equal(echo.seen.at(-1)?.schema, '{"type":"object"}');
  }));

test("the official client hands over tools, reads calls, whole and streamed, and tells their results", () =>
  withApi(true, async ({ client, echo }) => {
    const asked = {
      model: "echo",
      messages: [{ role: "user" as const, content: "call weather" }],
      tools: [tool as never],
    };
    const chat = await client.chat.completions.create(asked);
    const [choice] = chat.choices;
    assert.equal(choice?.finish_reason, "tool_calls");
    assert.equal(choice?.message.content, null);
    const [call] = choice?.message.tool_calls ?? [];
    assert.deepEqual(call, { ...called("weather", '{"city":"Nantucket"}'), id: call?.id });
    const stream = client.chat.completions.stream({ ...asked });
    const final = await stream.finalChatCompletion();
    assert.deepEqual(
      final.choices[0]?.message.tool_calls?.map((one) => one.type === "function" && one.function.arguments),
      ['{"city":"Nantucket"}'],
    );
    const messages = [
      ...asked.messages,
      choice?.message as never,
      { role: "tool" as const, tool_call_id: call?.id as string, content: "rain" },
    ];
    await client.chat.completions.create({ ...asked, messages, tool_choice: "required", parallel_tool_calls: false });
    const { prompt, mustCall } = echo.seen.at(-1) as TextRequest;
    assert.deepEqual(mustCall, { parallel: false });
    assert.deepEqual((prompt as { turns: unknown[] }).turns.slice(1), [
      { role: "assistant", content: "", calls: [{ id: call?.id, name: "weather", arguments: '{"city":"Nantucket"}' }] },
      { role: "tool", content: "rain", callId: call?.id, name: "weather" },
    ]);
    await client.chat.completions.create({ ...asked, parallel_tool_calls: false });
    assert.equal(echo.seen.at(-1)?.oneCall, true, "also where the model calls by itself");
    await client.chat.completions.create({ ...asked, tool_choice: "none" });
    assert.deepEqual(Object.keys(echo.seen.at(-1)?.prompt as object), ["turns"], "nothing is said of tools");
  }));

test("several prompts get several answers each, in OpenAI's order, with seeds that follow from the first", () =>
  withApi(true, async ({ client, echo }) => {
    const ask = { model: "echo", prompt: ["call me", "a whale", "ahab"], n: 3, best_of: 3, seed: 11 };
    const answer = await client.completions.create(ask);
    const expected = ask.prompt.flatMap((prompt) => Array(3).fill(prompt.toUpperCase()));
    assert.deepEqual(
      answer.choices.map(({ text }) => text),
      expected,
    );
    assert.deepEqual(
      answer.choices.map(({ index }) => index),
      expected.map((_, index) => index),
    );
    // Three tokens of each prompt, once; two, two and one word, three times each.
    assert.deepEqual(answer.usage, { prompt_tokens: 9, completion_tokens: 15, total_tokens: 24 });
    const seeds = echo.seen.map(({ sampling }) => sampling.seed);
    assert.equal(seeds[0], 11, "the first answer is what one alone would be");
    assert.equal(new Set(seeds).size, 9);
    assert.equal(echo.runningMost, 4, "one request does not take all places");
    const texts: string[] = [];
    const finished: number[] = [];
    let usage: unknown;
    for await (const chunk of await client.completions.create({
      ...{ ...ask, stream: true, stream_options: { include_usage: true } },
    })) {
      for (const { index, text, finish_reason } of chunk.choices) {
        texts[index] = (texts[index] ?? "") + text;
        if (finish_reason) finished.push(index);
      }
      usage = chunk.usage ?? usage;
    }
    assert.deepEqual(texts, expected);
    assert.deepEqual(
      finished.sort((a, b) => a - b),
      expected.map((_, index) => index),
    );
    assert.deepEqual(usage, answer.usage);
    assert.deepEqual(
      echo.seen
        .slice(9)
        .map(({ sampling }) => sampling.seed)
        .sort(),
      seeds.toSorted(),
    );
    const ids = await client.completions.create({ model: "echo", prompt: [[1, 2], [3]] });
    assert.deepEqual(
      ids.choices.map(({ text }) => text),
      ["1,2", "3"],
    );
  }));

test("a chat with several answers gives each of them its role, and one that fails ends all", () =>
  withApi(true, async ({ client, echo }) => {
    const chat = await client.chat.completions.create({ model: "echo", messages, n: 2 });
    assert.deepEqual(
      chat.choices.map(({ message }) => message.content),
      ["CALL ME", "CALL ME"],
    );
    const roles = new Set<number>();
    for await (const { choices } of await client.chat.completions.create({
      ...{ model: "echo", messages, n: 2, stream: true },
    }))
      for (const { index, delta } of choices) if (delta.role === "assistant") roles.add(index);
    assert.deepEqual([...roles].sort(), [0, 1]);
    await assert.rejects(
      client.completions.create({ model: "echo", prompt: ["endless", "endless", "too long"] }),
      refusal(400, "context_length_exceeded", null),
    );
    while (echo.running > 0) await new Promise((resolve) => setImmediate(resolve));
  }));

test("a client that goes away mid-stream ends the computation for it", () =>
  withApi(true, async ({ client, echo }) => {
    const stream = await client.completions.create({ model: "echo", prompt: "endless", stream: true });
    let pieces = 0;
    for await (const _ of stream) if (++pieces === 5) break;
    while (!echo.aborted) await new Promise((resolve) => setImmediate(resolve));
    assert.ok(echo.aborted);
    while (echo.running > 0) await new Promise((resolve) => setImmediate(resolve));
  }));

test("beyond loopback a key with the right scope is needed, and its rate is kept", () =>
  withApi(false, async ({ client, keys, url }) => {
    await assert.rejects(client.models.list(), refusal(401, "invalid_api_key", null));
    const trainer = await keys.create({ name: "trainer", scopes: ["train"] });
    const without = new OpenAI({ baseURL: url, apiKey: trainer.secret, maxRetries: 0 });
    await assert.rejects(without.models.list(), refusal(403, "missing_scope", null));
    const { key, secret } = await keys.create({ name: "app", scopes: ["generate"], requestsPerMinute: 2 });
    const app = new OpenAI({ baseURL: url, apiKey: secret, maxRetries: 0 });
    await app.models.list();
    await app.models.list();
    await assert.rejects(app.models.list(), (error) => {
      assert.ok(error instanceof OpenAI.RateLimitError);
      assert.equal(error.headers?.get("retry-after"), "30", "two a minute: the next one in half a minute");
      return true;
    });
    time.nowMs += 30_000;
    await app.models.list();
    await keys.delete(key.id);
    await assert.rejects(app.models.list(), refusal(401, "invalid_api_key", null));
    assert.deepEqual(
      (await keys.list()).map(({ name }) => name),
      ["trainer"],
    );
  }));

test("the official client gets vectors for texts and token ids, as numbers and as bytes", () =>
  withApi(true, async ({ client, echo }) => {
    const vectorOf = (length: number) => [Math.fround(Math.cos(length)), Math.fround(Math.sin(length)), 0];
    // The client asks for base64 by itself and reads it back.
    const one = await client.embeddings.create({ model: "echo", input: "call" });
    assert.deepEqual(one.data, [{ object: "embedding", index: 0, embedding: vectorOf(4) }]);
    assert.deepEqual(one.usage, { prompt_tokens: 4, total_tokens: 4 });
    assert.equal(one.model, "echo");
    const many = await client.embeddings.create({
      ...{ model: "echo", encoding_format: "float" as const, user: "me", dimensions: 3 },
      input: Array.from({ length: 9 }, (_, i) => "x".repeat(i + 1)),
    });
    assert.deepEqual(
      many.data.map(({ index, embedding }) => ({ index, embedding })),
      Array.from({ length: 9 }, (_, index) => ({ index, embedding: vectorOf(index + 1) })),
    );
    assert.equal(many.usage.prompt_tokens, 45);
    assert.ok(echo.runningMost > 1 && echo.runningMost <= 4, `${echo.runningMost} at once`);
    for (const input of [
      [5, 6, 7],
      [[5, 6], [7]],
    ] as (number[] | number[][])[]) {
      const { data } = await client.embeddings.create({ model: "echo", input });
      assert.equal(data.length, Array.isArray(input[0]) ? 2 : 1);
      assert.deepEqual(echo.embedded.at(-1)?.prompt, Array.isArray(input[0]) ? [7] : [5, 6, 7]);
    }
  }));

test("as many texts as one request may have fit into it", () =>
  withApi(true, async ({ client }) => {
    const input = Array.from({ length: 2_048 }, () => "a whale ".repeat(100));
    const { data } = await client.embeddings.create({ model: "echo", input });
    assert.equal(data.length, input.length);
  }));

test("what cannot be embedded is refused by name", () =>
  withApi(true, async ({ client, echo }) => {
    const embed = (change: object) => client.embeddings.create({ model: "echo", input: "x", ...change });
    await assert.rejects(embed({ dimensions: 2 }), refusal(400, "unsupported_parameter", "dimensions"));
    await assert.rejects(embed({ dimensions: "3" }), refusal(400, "unsupported_parameter", "dimensions"));
    await assert.rejects(embed({ encoding_format: "int8" }), refusal(400, "unsupported_parameter", "encoding_format"));
    await assert.rejects(embed({ pooling: "last" }), refusal(400, "unknown_parameter", "pooling"));
    await assert.rejects(embed({ input: null }), refusal(400, "missing_required_parameter", "input"));
    for (const input of [[], "", ["a", ""], ["a", [1]], [1.5], [[]], Array.from({ length: 2_049 }, () => "x"), 7])
      await assert.rejects(embed({ input }), refusal(400, "invalid_value", "input"));
    await assert.rejects(embed({ model: "none" }), refusal(404, "model_not_found", "model"));
    const before = echo.embedded.length;
    const texts = ["too long", ...Array.from({ length: 20 }, () => "x")];
    await assert.rejects(embed({ input: texts }), refusal(400, "context_length_exceeded", null));
    assert.equal(echo.embedded.length, before + 1, "the rest is not computed");
  }));
