// From what was asked to the token ids that a model gets: text by its vocabulary, conversations by its chat format.

import { fail } from "../../core/errors.ts";
import { parseSha256 } from "../../core/ids.ts";
import { Recent } from "../../core/recent.ts";
import { loadTokenizer } from "../../data/bpe/json.ts";
import type { Tokenizer } from "../../data/bpe/tokenizer.ts";
import { type Chat, openChat } from "../../models/chat.ts";
import type { Context } from "../context.ts";
import type { ModelRecord } from "../records/records.ts";
import { readChat } from "./models.ts";
import { PromptTooLong, type TextRequest } from "./text.ts";

/** Tokens of well-known names that end an answer, besides those that the model's files name. */
const endWords = ["<|endoftext|>", "</s>", "<|im_end|>", "<|eot_id|>", "<|end_of_text|>"];
/** Models whose vocabularies and chat formats are in memory. */
const textsKept = 8;

/** How one model reads and writes. */
interface ModelText {
  readonly tokenizer: Tokenizer;
  readonly chat: Chat;
  readonly endTokens: readonly number[];
}

export interface Prompt {
  readonly ids: ArrayLike<number> & Iterable<number>;
  readonly tokenizer: Tokenizer | undefined;
  /** Words and ids that end the answer. */
  readonly stop: readonly string[];
  readonly endTokens: readonly number[];
}

export class Prompts {
  readonly #context: Context;
  readonly #texts = new Recent<string, Promise<ModelText>>(textsKept);

  constructor(context: Context) {
    this.#context = context;
  }

  async of(model: ModelRecord, prompt: TextRequest["prompt"]): Promise<Prompt> {
    const text = model.tokenizer ? await this.#text(model) : undefined;
    const ids = idsOf(model, prompt, text);
    check(model, ids);
    const stop = typeof prompt === "object" && "turns" in prompt ? (text?.chat.stop ?? []) : [];
    return { ids, tokenizer: text?.tokenizer, stop, endTokens: text?.endTokens ?? [] };
  }

  #text({ tokenizer, chat = "" }: ModelRecord): Promise<ModelText> {
    const key = `${tokenizer} ${chat}`;
    const known = this.#texts.get(key);
    if (known) return known;
    const loading = this.#load(tokenizer, chat);
    this.#texts.set(key, loading);
    loading.catch(() => this.#texts.delete(key));
    return loading;
  }

  async #load(hash: string, chat: string): Promise<ModelText> {
    const content = await this.#context.blobs.vocabularies.get(parseSha256(hash, "the tokenizer"));
    const tokenizer = loadTokenizer(new TextDecoder().decode(content));
    const format = chat === "" ? undefined : await readChat(this.#context, chat);
    const named = endWords.flatMap((word) => tokenizer.idOf(word) ?? []);
    const endTokens = [...new Set([...(format?.endTokens ?? []), ...named])];
    return { tokenizer, chat: openChat(format, tokenizer), endTokens };
  }
}

function idsOf(model: ModelRecord, prompt: TextRequest["prompt"], text: ModelText | undefined): Prompt["ids"] {
  if (Array.isArray(prompt)) return prompt as readonly number[];
  if (!text) fail("failed_precondition", `model ${model.name} has no tokenizer: send token ids instead of text`);
  if (typeof prompt === "string") return text.tokenizer.encode(prompt, { addSpecial: true });
  return text.chat.encode((prompt as Exclude<typeof prompt, readonly number[]>).turns);
}

function check(model: ModelRecord, ids: Prompt["ids"]): void {
  for (const id of ids)
    if (id < 0 || (model.vocabulary > 0 && id >= model.vocabulary))
      fail("invalid_argument", `token ${id} is outside the model's vocabulary of ${model.vocabulary}`);
  if (ids.length === 0) fail("invalid_argument", "the prompt is empty");
  if (ids.length >= model.context)
    throw new PromptTooLong(
      `the prompt has ${ids.length} tokens, model ${model.name} takes at most ${model.context - 1}: shorten it`,
    );
}
