import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { type Aside, asideHere } from "../../core/aside.ts";
import { sha256 } from "../../core/hash.ts";
import { loadTokenizer } from "../../data/bpe/json.ts";
import { openMemoryBlobs } from "../../store/memory.ts";
import type { Context } from "../context.ts";
import type { ModelRecord } from "../records/sessions.ts";
import { Prompts } from "./prompts.ts";

const content = readFileSync(new URL("../../data/bpe/fixtures/llama2.json", import.meta.url));
const tokenizer = loadTokenizer(content.toString());

async function scene(aside: Aside, vocabulary = content) {
  const blobs = openMemoryBlobs();
  const hash = sha256(vocabulary);
  await blobs.vocabularies.put(hash, vocabulary, vocabulary.byteLength);
  const model = { name: "m", tokenizer: hash, context: 100, vocabulary: tokenizer.vocabularySize };
  return { prompts: new Prompts({ blobs, aside } as unknown as Context), model: model as unknown as ModelRecord };
}

test("a prompt is encoded by the model's vocabulary, also when the thread that knew it was killed", async () => {
  const asked: string[] = [];
  let forgets = 0;
  const { prompts, model } = await scene({
    run: async (work, input) => {
      asked.push(work.name);
      if (work.name === "encodingPrompt" && forgets-- > 0) return [undefined as never];
      return asideHere.run(work, input);
    },
  });
  const expected = [...tokenizer.encode("Hello there", { addSpecial: true })];
  assert.deepEqual([...(await prompts.of(model, { prompt: "Hello there" })).ids], expected);
  assert.deepEqual([...(await prompts.of(model, { prompt: "Hello there" })).ids], expected);
  assert.deepEqual(asked, ["openingText", "encodingPrompt", "encodingPrompt"], "it is opened once");
  asked.length = 0;
  forgets = 1;
  assert.deepEqual([...(await prompts.of(model, { prompt: "Hello there" })).ids], expected);
  assert.deepEqual(asked, ["encodingPrompt", "openingText", "encodingPrompt"]);
  forgets = 2;
  await assert.rejects(prompts.of(model, { prompt: "Hello there" }), { code: "unavailable" });
});

test("a text that is cut keeps the tokens that the model expects around it", async () => {
  const bert = readFileSync(new URL("../../data/bpe/fixtures/bert.json", import.meta.url));
  const { prompts, model } = await scene(asideHere, bert);
  const short = { ...model, context: 5, vocabulary: 0 };
  const whole = [...loadTokenizer(bert.toString()).encode("call me ishmael some years ago", { addSpecial: true })];
  assert.ok(whole.length > 5);
  const cut = await prompts.idsOf(short, { model: "m", prompt: "call me ishmael some years ago", truncate: true });
  assert.deepEqual(cut, [...whole.slice(0, 4), whole.at(-1)]);
  assert.deepEqual(
    await prompts.idsOf(short, { model: "m", prompt: [1, 2, 3, 4, 5, 6], truncate: true }),
    [1, 2, 3, 4, 5],
  );
});

test("token ids need no vocabulary, text does; ids outside of it are refused", async () => {
  const { prompts, model } = await scene(asideHere);
  const bare = { ...model, tokenizer: "" };
  assert.deepEqual((await prompts.of(bare, { prompt: [1, 2] })).ids, [1, 2]);
  await assert.rejects(prompts.of(bare, { prompt: "text" }), { code: "failed_precondition" });
  await assert.rejects(prompts.of(model, { prompt: [tokenizer.vocabularySize] }), /outside the model's vocabulary/);
  assert.deepEqual((await prompts.of(model, { prompt: { turns: [{ role: "user", content: "x" }] } })).stop, [
    "\nuser:",
    "\nsystem:",
  ]);
});
