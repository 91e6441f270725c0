import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI from "openai";
import { withApi } from "./echo.testing.ts";

const tool = { type: "function" as const, name: "weather", parameters: { type: "object" }, strict: null };

test("the official client gets a response, whole and streamed, in the same words", () =>
  withApi(true, async ({ client, echo }) => {
    const asked = {
      model: "echo",
      instructions: "Be loud.",
      input: "call me ishmael",
      max_output_tokens: 9,
      temperature: 0.5,
    };
    const whole = await client.responses.create(asked);
    assert.equal(whole.output_text, "CALL ME ISHMAEL");
    assert.equal(whole.status, "completed");
    assert.deepEqual([whole.usage?.input_tokens, whole.usage?.output_tokens, whole.usage?.total_tokens], [3, 3, 6]);
    const streamed = await client.responses.stream(asked).finalResponse();
    assert.equal(streamed.output_text, "CALL ME ISHMAEL");
    assert.deepEqual(streamed.usage, whole.usage);
    const kinds: string[] = [];
    let number = 0;
    for await (const event of await client.responses.create({ ...asked, stream: true })) {
      kinds.push(event.type);
      assert.equal(event.sequence_number, number++);
    }
    assert.deepEqual(kinds, [
      ...["response.created", "response.in_progress", "response.output_item.added", "response.content_part.added"],
      ...Array(3).fill("response.output_text.delta"),
      ...["response.output_text.done", "response.content_part.done", "response.output_item.done", "response.completed"],
    ]);
    const { prompt, maxTokens, sampling } = echo.seen[0] as (typeof echo.seen)[number];
    assert.deepEqual([maxTokens, sampling.temperature], [9, 0.5]);
    assert.deepEqual((prompt as { turns: unknown }).turns, [
      { role: "system", content: "Be loud." },
      { role: "user", content: "call me ishmael" },
    ]);
  }));

test("the official client hands over tools and what came of them, and schemas", () =>
  withApi(true, async ({ client, echo }) => {
    const asked = { model: "echo", input: "call weather", tools: [tool] };
    const whole = await client.responses.create(asked);
    const [call] = whole.output;
    assert.ok(call?.type === "function_call");
    assert.deepEqual([call.name, call.arguments], ["weather", '{"city":"Nantucket"}']);
    const streamed = await client.responses.stream(asked).finalResponse();
    assert.deepEqual(
      streamed.output.map((item) => item.type === "function_call" && [item.name, item.arguments]),
      [["weather", '{"city":"Nantucket"}']],
    );
    const told = { type: "function_call_output" as const, call_id: call.call_id, output: "rain" };
    const parts = { role: "user" as const, content: [{ type: "input_text" as const, text: "go on" }] };
    await client.responses.create({ ...asked, input: [{ role: "user", content: "x" }, call, told, parts] });
    const { prompt } = echo.seen.at(-1) as { prompt: { turns?: readonly object[] } } as never as {
      prompt: { turns: readonly object[] };
    };
    assert.deepEqual(prompt.turns.slice(1), [
      {
        role: "assistant",
        content: "",
        calls: [{ id: call.call_id, name: "weather", arguments: '{"city":"Nantucket"}' }],
      },
      { role: "tool", content: "rain", callId: call.call_id, name: "weather" },
      { role: "user", content: "go on" },
    ]);
    const schema = { type: "object", properties: {} };
    await client.responses.create({
      model: "echo",
      input: "x",
      text: { format: { type: "json_schema", name: "x", schema } },
    });
    assert.equal(echo.seen.at(-1)?.schema, JSON.stringify(schema));
    await client.responses.create({ ...asked, tool_choice: { type: "function", name: "weather" } });
    assert.deepEqual(echo.seen.at(-1)?.mustCall, { parallel: true });
  }));

test("what cannot be done is refused by the name it has here", () =>
  withApi(true, async ({ client, echo }) => {
    for (const [change, status, code, param] of [
      [{ input: undefined }, 400, "missing_required_parameter", "input"],
      [{ input: 3 }, 400, "invalid_value", "input"],
      [{ input: [] }, 400, "invalid_value", "input"],
      [{ input: [{ type: "reasoning" }] }, 400, "unsupported_parameter", "input[0].type"],
      [{ input: [{ role: "user", content: [{ type: "input_image" }] }] }, 400, "invalid_value", "input[0].content[0]"],
      [{ max_output_tokens: 0 }, 400, "invalid_value", "max_output_tokens"],
      [{ previous_response_id: "resp_1" }, 400, "unsupported_parameter", "previous_response_id"],
      [{ conversation: "c" }, 400, "unsupported_parameter", "conversation"],
      [{ reasoning: { effort: "high" } }, 400, "unsupported_parameter", "reasoning"],
      [{ background: true }, 400, "unsupported_parameter", "background"],
      [{ include: ["reasoning.encrypted_content"] }, 400, "unsupported_parameter", "include"],
      [{ truncation: "auto" }, 400, "unsupported_parameter", "truncation"],
      [{ top_logprobs: 2 }, 400, "unsupported_parameter", "top_logprobs"],
      [{ tools: [{ type: "web_search" }] }, 400, "unsupported_parameter", "tools[0].type"],
      [{ text: { format: { type: "grammar" } } }, 400, "unsupported_parameter", "text.format.type"],
      [{ mood: "glad" }, 400, "unknown_parameter", "mood"],
      [{ model: "none" }, 404, "model_not_found", "model"],
    ] as const)
      await assert.rejects(client.responses.create({ model: "echo", input: "x", ...(change as object) }), (error) => {
        assert.ok(error instanceof OpenAI.APIError);
        assert.deepEqual([error.status, error.code, error.param], [status, code, param]);
        return true;
      });
    assert.ok(echo.seen.length <= 1, "nothing was computed");
    await client.responses.create({
      model: "echo",
      input: "x",
      store: false,
      metadata: {},
      truncation: "disabled",
      user: "ada",
    });
  }));
