import assert from "node:assert/strict";
import { test } from "node:test";
import { type Echo, withApi } from "./echo.testing.ts";

type Line = Readonly<Record<string, unknown>> & {
  readonly message?: { content: string; tool_calls?: unknown };
  readonly done?: boolean;
};

async function post(url: string, path: string, body: object): Promise<{ status: number; lines: Line[] }> {
  const response = await fetch(url.replace("/v1", path), { method: "POST", body: JSON.stringify(body) });
  const text = await response.text();
  return {
    status: response.status,
    lines: text
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Line),
  };
}

function turnsOf({ seen }: Echo): readonly object[] {
  return (seen.at(-1) as { prompt: { turns?: readonly object[] } } | undefined)?.prompt.turns ?? [];
}

test("programs for Ollama list models, converse line by line and complete prompts", () =>
  withApi(true, async ({ url, echo }) => {
    const tags = await (await fetch(url.replace("/v1", "/api/tags"))).json();
    assert.deepEqual(tags, {
      models: [{ name: "echo", model: "echo", modified_at: "2023-11-14T22:13:20.000Z", details: { format: "dcnr" } }],
    });
    const messages = [{ role: "user", content: "call me ishmael" }];
    const { lines } = await post(url, "/api/chat", { model: "echo:latest", messages });
    assert.equal(lines.map(({ message }) => message?.content).join(""), "CALL ME ISHMAEL");
    assert.deepEqual(
      lines.map(({ done }) => done),
      [false, false, false, true],
    );
    const last = lines.at(-1);
    assert.deepEqual([last?.["done_reason"], last?.["prompt_eval_count"], last?.["eval_count"]], ["stop", 3, 3]);
    const whole = await post(url, "/api/chat", {
      model: "echo",
      messages,
      stream: false,
      format: "json",
      keep_alive: "5m",
    });
    assert.equal(whole.lines[0]?.message?.content, "CALL ME ISHMAEL");
    assert.equal(echo.seen.at(-1)?.schema, '{"type":"object"}');
    const options = { temperature: 0, num_predict: 2, seed: 7, stop: ["x"], repeat_penalty: 1.2 };
    const made = await post(url, "/api/generate", {
      model: "echo",
      prompt: "call me ishmael",
      raw: true,
      stream: false,
      options,
    });
    assert.equal(made.lines[0]?.["response"], "CALL ME");
    const { sampling, maxTokens, stop, prompt } = echo.seen.at(-1) as (typeof echo.seen)[number];
    assert.deepEqual(
      [
        sampling.temperature,
        sampling.topK,
        sampling.topP,
        sampling.seed,
        sampling.repetitionPenalty,
        maxTokens,
        stop,
        prompt,
      ],
      [0, 40, 0.9, 7, 1.2, 2, ["x"], "call me ishmael"],
    );
    await post(url, "/api/generate", { model: "echo", prompt: "x", system: "Be loud." });
    assert.deepEqual(turnsOf(echo), [
      { role: "system", content: "Be loud." },
      { role: "user", content: "x" },
    ]);
  }));

test("programs for Ollama call tools with arguments that are objects", () =>
  withApi(true, async ({ url, echo }) => {
    const tools = [{ type: "function", function: { name: "weather", parameters: { type: "object" } } }];
    const messages = [{ role: "user", content: "call weather" }];
    const { lines } = await post(url, "/api/chat", { model: "echo", messages, tools });
    const calls = [{ function: { name: "weather", arguments: { city: "Nantucket" } } }];
    assert.deepEqual(lines[0]?.message?.tool_calls, calls);
    const said = [
      ...messages,
      { role: "assistant", content: "", tool_calls: calls },
      { role: "tool", tool_name: "weather", content: "rain" },
    ];
    await post(url, "/api/chat", { model: "echo", messages: said, tools });
    assert.deepEqual(turnsOf(echo).slice(1), [
      {
        role: "assistant",
        content: "",
        calls: [{ id: "call-1-0", name: "weather", arguments: '{"city":"Nantucket"}' }],
      },
      { role: "tool", content: "rain", name: "weather", callId: "call-1-0" },
    ]);
  }));

test("texts become vectors by both of Ollama's calls; what does not fit is cut only where that is asked for", () =>
  withApi(true, async ({ url, echo }) => {
    const vectorOf = (length: number) => [Math.fround(Math.cos(length)), Math.fround(Math.sin(length)), 0];
    const { lines } = await post(url, "/api/embed", { model: "echo:latest", input: ["ab", "abc"] });
    const { total_duration: _, ...told } = lines[0] ?? {};
    assert.deepEqual(told, {
      ...{ model: "echo", embeddings: [vectorOf(2), vectorOf(3)], prompt_eval_count: 5, load_duration: 0 },
    });
    const older = await post(url, "/api/embeddings", { model: "echo", prompt: "abcd" });
    assert.deepEqual(older.lines[0], { embedding: vectorOf(4) });
    assert.equal((await post(url, "/api/embed", { model: "echo", input: "too long" })).status, 400);
    const cut = await post(url, "/api/embed", { model: "echo", input: "too long", truncate: true, keep_alive: "5m" });
    assert.equal(cut.status, 200);
    assert.equal(echo.embedded.at(-1)?.truncate, true);
  }));

test("what is not obeyed is refused by name, in Ollama's own shape", () =>
  withApi(true, async ({ url, echo }) => {
    const messages = [{ role: "user", content: "x" }];
    for (const [path, change, status, what] of [
      ["/api/chat", { options: { num_ctx: 4096 } }, 400, /options\.num_ctx is not supported/],
      ["/api/chat", { options: { mirostat: 1 } }, 400, /options\.mirostat is not a parameter/],
      ["/api/chat", { think: true }, 400, /think is not supported/],
      ["/api/chat", { messages: [{ role: "user", content: "x", images: ["a"] }] }, 400, /messages\[0\]\.images/],
      ["/api/chat", { messages: [] }, 400, /messages must be/],
      ["/api/chat", { format: 3 }, 400, /format must be/],
      ["/api/chat", { model: "none" }, 404, /there is no model/],
      ["/api/chat", { options: { temperature: "hot" } }, 400, /temperature must be/],
      ["/api/generate", {}, 400, /messages is not a parameter/],
      ["/api/embed", {}, 400, /messages is not a parameter/],
      ["/api/embed", { messages: undefined, input: [] }, 400, /input must be/],
      ["/api/embed", { messages: undefined, input: "x", dimensions: 2 }, 400, /dimensions must be 3/],
      ["/api/embed", { messages: undefined, input: "x", options: { num_ctx: 1 } }, 400, /options is not supported/],
      ["/api/embeddings", { messages: undefined, prompt: ["x"] }, 400, /prompt must be a text/],
      ["/api/pull", {}, 404, /there is no POST \/api\/pull/],
    ] as const) {
      const { status: got, lines } = await post(url, path, { model: "echo", messages, ...change });
      assert.equal(got, status, String(what));
      assert.match(String(lines[0]?.["error"]), what);
    }
    assert.ok(echo.seen.length <= 1);
  }));

test("without a key nobody from elsewhere is answered", () =>
  withApi(false, async ({ url }) => {
    assert.equal((await fetch(url.replace("/v1", "/api/tags"))).status, 401);
  }));
