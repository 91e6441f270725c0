// From what was asked to the token ids that a model gets: text by its vocabulary, conversations by its chat format.

import { runAside } from "../../core/aside.ts";
import { Recent } from "../../core/caches/recent.ts";
import { fail } from "../../core/errors.ts";
import { parseSha256 } from "../../core/ids.ts";
import type { TokenTable } from "../../data/bpe/token-table.ts";
import type { ChatPrompt } from "../../models/chats/chat-template.ts";
import { forcedCall, noTools, type ToolFormat } from "../../models/chats/tools.ts";
import { type AskedText, encodingPrompt, openingText, type TextFacts } from "../../models/works.ts";
import type { Context } from "../context.ts";
import type { ModelRecord } from "../records/sessions.ts";
import { chatText } from "./models.ts";
import { type EmbedRequest, PromptTooLong, type TextRequest } from "./text.ts";

/** Models of which it is remembered how answers are written down. */
const textsKept = 8;

export interface Prompt {
  /** What the answer has to fit, if it has to be a call of a tool. */
  readonly schema?: string;
  /** Where tools may be called: how calls are told from text. */
  readonly calls?: { readonly format: ToolFormat; readonly forced: boolean };
  readonly ids: ArrayLike<number> & Iterable<number>;
  /** Absent where a model has no vocabulary: its answers are ids. */
  readonly table: TokenTable | undefined;
  /** Words and ids that end the answer. */
  readonly stop: readonly string[];
  readonly endTokens: readonly number[];
}

export class Prompts {
  readonly #context: Context;
  readonly #texts = new Recent<string, Promise<TextFacts>>(textsKept);

  constructor(context: Context) {
    this.#context = context;
  }

  /** Ids of a text that is read as a whole: no answer has to fit behind it. */
  async idsOf(model: ModelRecord, { prompt, truncate }: EmbedRequest): Promise<number[]> {
    const most = truncate ? model.context : undefined;
    const ids = [...(isIds(prompt) ? prompt.slice(0, most) : await this.#encode(model, prompt, most))];
    check(model, ids, model.context);
    return ids;
  }

  async of(model: ModelRecord, { prompt, mustCall }: Pick<TextRequest, "prompt" | "mustCall">): Promise<Prompt> {
    const text = model.tokenizer ? await this.#text(model) : undefined;
    const { tools = [] } = isChat(prompt) ? prompt : {};
    const format = tools.length > 0 ? (text?.toolFormat ?? noTools(model.name)) : undefined;
    const forced = format && mustCall ? forcedCall(format, tools, mustCall.parallel) : undefined;
    const asked = isChat(prompt) && forced ? { ...prompt, opening: forced.opening } : prompt;
    const ids = isIds(asked) ? asked : await this.#encode(model, asked);
    check(model, ids, model.context - 1);
    return {
      ...{ ids, table: text?.table, endTokens: text?.endTokens ?? [] },
      stop: isChat(prompt) ? (text?.chatStop ?? []) : [],
      ...(forced ? { schema: forced.schema } : {}),
      ...(format ? { calls: { format, forced: forced !== undefined } } : {}),
    };
  }

  async #encode(model: ModelRecord, prompt: AskedText["prompt"], most?: number): Promise<Prompt["ids"]> {
    if (!model.tokenizer)
      fail("failed_precondition", `model ${model.name} has no tokenizer: send token ids instead of text`);
    const asked = { key: keyOf(model), prompt, ...(most === undefined ? {} : { most }) };
    const ids = await runAside(this.#context.aside, encodingPrompt, asked);
    if (ids !== undefined) return ids;
    // The thread that knew the model's text is gone, or had to forget it.
    this.#texts.delete(asked.key);
    await this.#text(model);
    const again = await runAside(this.#context.aside, encodingPrompt, asked);
    return again ?? fail("unavailable", `too many models are asked at once: ask ${model.name} again`);
  }

  #text(model: ModelRecord): Promise<TextFacts> {
    const key = keyOf(model);
    const known = this.#texts.get(key);
    if (known) return known;
    const opening = this.#open(key, model);
    this.#texts.set(key, opening);
    opening.catch(() => this.#texts.delete(key));
    return opening;
  }

  async #open(key: string, model: ModelRecord): Promise<TextFacts> {
    const { blobs, aside } = this.#context;
    const tokenizer = await blobs.vocabularies.get(parseSha256(model.tokenizer, "the tokenizer"));
    const chat = model.chat ? await chatText(this.#context, model.chat) : "";
    return runAside(aside, openingText, { key, tokenizer, chat });
  }
}

function keyOf({ tokenizer, chat = "" }: ModelRecord): string {
  return `${tokenizer} ${chat}`;
}

export function isChat(prompt: TextRequest["prompt"]): prompt is ChatPrompt {
  return typeof prompt === "object" && "turns" in prompt;
}

function isIds(prompt: TextRequest["prompt"]): prompt is readonly number[] {
  return Array.isArray(prompt);
}

function check(model: ModelRecord, ids: Prompt["ids"], most: number): void {
  for (const id of ids)
    if (id < 0 || (model.vocabulary > 0 && id >= model.vocabulary))
      fail("invalid_argument", `token ${id} is outside the model's vocabulary of ${model.vocabulary}`);
  if (ids.length === 0) fail("invalid_argument", "the prompt is empty");
  if (ids.length > most)
    throw new PromptTooLong(
      `the prompt has ${ids.length} tokens, model ${model.name} takes at most ${most}: shorten it`,
    );
}
