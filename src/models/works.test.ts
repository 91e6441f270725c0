// What strangers may write into vocabularies, templates and prompts: it ends, and others go on meanwhile.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, describe, it } from "node:test";
import { runAside } from "../core/aside.ts";
import { loadTokenizer } from "../data/bpe/json.ts";
import { tokenDecoder } from "../data/bpe/token-table.ts";
import { checkingVocabulary } from "../data/works.ts";
import { openAside } from "../system/threads/aside.ts";
import { checkingChat, encodingPrompt, openingText } from "./works.ts";

const aside = openAside();
after(() => aside.close());

const vocabulary = (name: string) => readFileSync(new URL(`../data/bpe/fixtures/${name}.json`, import.meta.url));

/** Up to three repetitions in a row are allowed, and take the fourth power of a word's length. */
function slowVocabulary(): Uint8Array {
  const json = JSON.parse(vocabulary("gpt2").toString()) as Record<string, unknown>;
  const cut = { type: "Split", pattern: { Regex: "a*a*a*b" }, behavior: "Isolated", invert: false };
  json["pre_tokenizer"] = { type: "Sequence", pretokenizers: [cut, json["pre_tokenizer"]] };
  return new TextEncoder().encode(JSON.stringify(json));
}

/** Few steps, each over a text of a megabyte. */
const slowTemplate = `{% set ns = namespace(text='aaaaaaaaaaaaaaaa') %}
{% for i in range(16) %}{% set ns.text = ns.text ~ ns.text %}{% endfor %}
{% for i in range(9999) %}{% set ignored = ns.text | replace('aaaaaaab', 'c') | replace('a', 'b') | length %}{% endfor %}`;

const chatOf = (template: string) => JSON.stringify({ template, bosToken: "", eosToken: "", endTokens: [7] });

async function turnsDuring(work: Promise<unknown>): Promise<number> {
  let turns = 0;
  const counter = setInterval(() => turns++, 1);
  await work.catch(() => {});
  clearInterval(counter);
  return turns;
}

describe("the text of a model, on another thread", () => {
  it("is read as on this one", async () => {
    const content = vocabulary("qwen2");
    const here = loadTokenizer(content.toString());
    const facts = await runAside(aside, openingText, { key: "qwen2", tokenizer: content, chat: "" });
    const said = "Hello, world: ünïcödé\n";
    const ids = await runAside(aside, encodingPrompt, { key: "qwen2", prompt: said });
    assert.deepEqual([...(ids ?? [])], [...here.encode(said, { addSpecial: true })]);
    const decoder = tokenDecoder(facts.table, { skipSpecial: true });
    assert.equal([...(ids ?? [])].map((id) => decoder.push(id)).join("") + decoder.end(), said);
    assert.ok(facts.endTokens.includes(here.idOf("<|im_end|>") ?? -1));
    assert.equal(await runAside(aside, checkingVocabulary, content), here.vocabularySize);
  });

  it("is asked for again when nobody remembers it", async () => {
    assert.equal(await runAside(aside, encodingPrompt, { key: "unheard of", prompt: "x" }), undefined);
  });

  it("is refused with the reader's own sentence", async () => {
    const broken = runAside(aside, checkingVocabulary, new TextEncoder().encode("{}"));
    await assert.rejects(broken, { code: "invalid_argument", message: /model must be a JSON object/ });
    await assert.rejects(runAside(aside, checkingChat, chatOf("{% for %}")), { code: "invalid_argument" });
  });

  it("holds nobody up with a pattern that takes for ever", async () => {
    await runAside(aside, openingText, { key: "slow", tokenizer: slowVocabulary(), chat: "" });
    const work = runAside(aside, encodingPrompt, { key: "slow", prompt: "a".repeat(20_000) });
    const turns = await turnsDuring(work);
    await assert.rejects(work, { code: "invalid_argument", message: "reading the prompt took longer than 2 s" });
    assert.ok(turns > 20, `${turns} turns of others`);
    assert.equal(await runAside(aside, encodingPrompt, { key: "slow", prompt: "a" }), undefined, "a new thread");
  });

  it("holds nobody up with a template that takes for ever", async () => {
    await runAside(aside, openingText, { key: "chat", tokenizer: vocabulary("qwen2"), chat: chatOf(slowTemplate) });
    const prompt = { turns: [{ role: "user" as const, content: "Hello" }] };
    const work = runAside(aside, encodingPrompt, { key: "chat", prompt });
    const turns = await turnsDuring(work);
    await assert.rejects(work, { code: "invalid_argument", message: "reading the prompt took longer than 2 s" });
    assert.ok(turns > 20, `${turns} turns of others`);
  });
});
