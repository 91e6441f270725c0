// How a model reads and writes text, as works for another thread (core/aside.ts): its vocabulary's patterns and its chat
// template are a stranger's programs, and prompts are written to suit them.

import type { Work } from "../core/aside.ts";
import { sameBytes } from "../core/bytes.ts";
import { Recent } from "../core/caches/recent.ts";
import { loadTokenizer } from "../data/bpe/json.ts";
import { bytesOfToken, type TokenTable } from "../data/bpe/token-table.ts";
import type { Tokenizer } from "../data/bpe/tokenizer.ts";
import { textLane, vocabularyDeadlineMs } from "../data/works.ts";
import { type Chat, type ChatFormat, openChat, parseChatFormat } from "./chats/chat.ts";
import type { ChatPrompt } from "./chats/chat-template.ts";
import type { ToolFormat } from "./chats/tools.ts";

const common = { lane: textLane, module: import.meta.url };
/** Prompts as long as any context take a tenth of it. */
const promptDeadlineMs = 2_000;

export const checkingChat: Work<string, ChatFormat> = {
  ...common,
  name: "checkingChat",
  what: "the chat format",
  deadlineMs: promptDeadlineMs,
  run: (text) => [parseChatFormat(text)],
};

export interface ModelText {
  /** Under which it is remembered: equal keys mean equal contents. */
  readonly key: string;
  readonly tokenizer: Uint8Array;
  /** A chat format as JSON, or empty. */
  readonly chat: string;
}

/** What it takes to write answers down. */
export interface TextFacts {
  readonly table: TokenTable;
  readonly endTokens: readonly number[];
  /** Words that end an answer in a conversation where no token does. */
  readonly chatStop: readonly string[];
  /** How the model calls tools, if it does. */
  readonly toolFormat: ToolFormat | undefined;
}

/** Tokens of well-known names that end an answer, besides those that the model's files name. */
const endWords = ["<|endoftext|>", "</s>", "<|im_end|>", "<|eot_id|>", "<|end_of_text|>"];

/** Models whose texts are remembered. */
const textsKept = 4;
const texts = new Recent<string, { readonly tokenizer: Tokenizer; readonly chat: Chat }>(textsKept);

export const openingText: Work<ModelText, TextFacts> = {
  ...common,
  name: "openingText",
  what: "the model's vocabulary",
  deadlineMs: vocabularyDeadlineMs,
  run: ({ key, tokenizer: content, chat: format }) => {
    const tokenizer = loadTokenizer(new TextDecoder().decode(content));
    const parsed = format === "" ? undefined : parseChatFormat(format);
    const chat = openChat(parsed, tokenizer);
    texts.set(key, { tokenizer, chat });
    const named = endWords.flatMap((word) => tokenizer.idOf(word) ?? []);
    const endTokens = [...new Set([...(parsed?.endTokens ?? []), ...named])];
    return [{ table: tokenizer.table, endTokens, chatStop: chat.stop, toolFormat: chat.tools }];
  },
};

export interface AskedText {
  readonly key: string;
  readonly prompt: string | ChatPrompt;
  /** At most so many ids of a text, the special ones around it included; absent: all. */
  readonly most?: number;
}

/** Gives no ids where the text is not remembered (any more): then it has to be opened first. */
export const encodingPrompt: Work<AskedText, Int32Array | undefined> = {
  ...common,
  name: "encodingPrompt",
  what: "the prompt",
  deadlineMs: promptDeadlineMs,
  run: ({ key, prompt, most }) => {
    const text = texts.get(key);
    if (text === undefined) return [undefined];
    if (typeof prompt === "string")
      return [text.tokenizer.encode(prompt, { addSpecial: true, ...(most === undefined ? {} : { most }) })];
    return [text.chat.encode(prompt)];
  },
};

export interface TwoVocabularies {
  /** tokenizer.json files. */
  readonly one: Uint8Array;
  readonly other: Uint8Array;
}

/** The first token that both have and write differently. */
export interface DifferentToken {
  readonly id: number;
  readonly one: string;
  readonly other: string;
}

/** Models are padded, and some have a few special tokens more: what both have must be the same. */
export const comparingVocabularies: Work<TwoVocabularies, DifferentToken | undefined> = {
  ...common,
  name: "comparingVocabularies",
  what: "the vocabularies",
  deadlineMs: 2 * vocabularyDeadlineMs,
  run: (files) => {
    const [one, other] = [files.one, files.other].map(
      (file) => loadTokenizer(new TextDecoder().decode(file)).table,
    ) as [TokenTable, TokenTable];
    const text = (table: TokenTable, id: number) => new TextDecoder().decode(bytesOfToken(table, id));
    for (let id = 0; id < Math.min(one.ends.length, other.ends.length); id++)
      if (!sameBytes(bytesOfToken(one, id), bytesOfToken(other, id)))
        return [{ id, one: text(one, id), other: text(other, id) }];
    return [undefined];
  },
};
