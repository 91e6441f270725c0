// The vocabulary inside a GGUF file as tokenizer.json: byte-level BPE ("gpt2"), or SentencePiece's ("llama"), whose
// merges follow from its scores.

import { fail } from "../../core/errors.ts";
import { loadTokenizer } from "../../data/bpe/json.ts";
import { wordPattern } from "../../data/bpe/pattern.ts";
import type { ChatFormat } from "../chats/chat.ts";
import type { GgufFile, GgufValue } from "./file.ts";

const llama3Pattern = String.raw`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`;

const qwen2Pattern = llama3Pattern.replace(String.raw`\p{N}{1,3}`, String.raw`\p{N}`);

interface WordCuts {
  readonly pattern: string;
  /** Digits stand alone, whatever the pattern would do with them. */
  readonly digits?: true;
  /** A word that is a token is that token, whatever its merges would give. */
  readonly wholeWords?: true;
  /** Texts begin with the token for it, unless the file says otherwise. */
  readonly begun?: true;
}

const ways: readonly (readonly [kinds: string, cuts: WordCuts])[] = [
  ["gpt-2 phi-2 mpt olmo jais roberta-bpe", { pattern: wordPattern }],
  ["smollm starcoder refact command-r codeshell exaone", { pattern: wordPattern, digits: true }],
  ["llama-bpe llama3 llama-v3 falcon3", { pattern: llama3Pattern, wholeWords: true, begun: true }],
  ["dbrx smaug-bpe", { pattern: llama3Pattern }],
  ["qwen2 stablelm2", { pattern: qwen2Pattern }],
];

/** How each kind of byte-level vocabulary cuts words. */
const cutsOf: ReadonlyMap<string, WordCuts> = new Map(
  ways.flatMap(([names, cuts]) => names.split(" ").map((name) => [name, cuts] as const)),
);

/** Kinds of tokens. */
const [unknownKind, controlKind, userKind] = [2, 3, 4];

/** What ends a turn where the file has no key for it: llama.cpp knows them by their spelling, too. */
const turnEnds = ["<end_of_turn>", "<|end|>", "<|eom_id|>", "<EOT>"];

type Metadata = GgufFile["metadata"];

export function tokenizerFrom(metadata: Metadata): { tokenizer: string | undefined; chat: ChatFormat } {
  const tokens = texts(metadata.get("tokenizer.ggml.tokens"));
  const idOf = (key: string) => {
    const id = metadata.get(`tokenizer.ggml.${key}`);
    return typeof id === "number" && id < Math.max(tokens.length, 1) ? id : undefined;
  };
  const [begin, end] = [idOf("bos_token_id"), idOf("eos_token_id")];
  const spelt = turnEnds.map((word) => tokens.indexOf(word)).filter((id) => id >= 0);
  const ends = [end, idOf("eot_token_id"), idOf("eom_token_id"), ...spelt].filter((id) => id !== undefined);
  const template = metadata.get("tokenizer.chat_template");
  const chat: ChatFormat = {
    template: typeof template === "string" ? template : "",
    bosToken: tokens[begin ?? -1] ?? "",
    eosToken: tokens[end ?? -1] ?? "",
    endTokens: [...new Set(ends)],
  };
  if (tokens.length === 0) return { tokenizer: undefined, chat };
  const model = metadata.get("tokenizer.ggml.model");
  const json =
    model === "gpt2" ? byteLevel(metadata, tokens) : model === "llama" ? sentencePiece(metadata, tokens) : undefined;
  if (json === undefined)
    fail(
      "unimplemented",
      `the GGUF file's vocabulary is of the kind ${String(model).slice(0, 80)}: gpt2 and llama are supported`,
    );
  const prepended =
    metadata.get("tokenizer.ggml.add_bos_token") ??
    (model === "llama" || cutsOf.get(String(metadata.get("tokenizer.ggml.pre")))?.begun === true);
  const text = JSON.stringify({
    version: "1.0",
    added_tokens: addedTokens(metadata, tokens),
    ...json,
    post_processor:
      prepended === true && begin !== undefined
        ? {
            type: "TemplateProcessing",
            single: [{ SpecialToken: { id: tokens[begin], type_id: 0 } }, { Sequence: { id: "A", type_id: 0 } }],
            pair: [],
            special_tokens: { [tokens[begin] as string]: { id: tokens[begin], ids: [begin], tokens: [tokens[begin]] } },
          }
        : null,
  });
  loadTokenizer(text);
  return { tokenizer: text, chat };
}

function texts(value: GgufValue | undefined): string[] {
  return Array.isArray(value) ? value.map(String) : [];
}

function kinds(metadata: Metadata): readonly number[] {
  const value = metadata.get("tokenizer.ggml.token_type");
  return Array.isArray(value) ? value.map(Number) : [];
}

function addedTokens(metadata: Metadata, tokens: readonly string[]) {
  const kindOf = kinds(metadata);
  const shared = { single_word: false, lstrip: false, normalized: false };
  // No key tells it: llama.cpp knows Phi-3 by its name, too.
  const isPhi3 = /phi-?3/i.test(String(metadata.get("general.name")));
  return tokens.flatMap((content, id) => {
    const kind = kindOf[id];
    const special = kind === controlKind || kind === unknownKind;
    const rstrip = isPhi3 && !["<unk>", "<s>", "<|endoftext|>"].includes(content);
    return special || kind === userKind ? [{ id, content, ...shared, rstrip, special }] : [];
  });
}

const vocabularyOf = (tokens: readonly string[]) => Object.fromEntries(tokens.map((token, id) => [token, id]));

function byteLevel(metadata: Metadata, tokens: readonly string[]) {
  const kind = String(metadata.get("tokenizer.ggml.pre") ?? "gpt-2");
  const {
    pattern,
    digits,
    wholeWords = false,
  } = cutsOf.get(kind) ??
  fail(
    "unimplemented",
    `the GGUF file cuts words in the way "${kind.slice(0, 80)}": ${[...cutsOf.keys()].join(", ")} are supported`,
  );
  return {
    normalizer: kind === "qwen2" ? { type: "NFC" } : null,
    pre_tokenizer: {
      type: "Sequence",
      pretokenizers: [
        ...(digits ? [{ type: "Digits", individual_digits: true }] : []),
        { type: "Split", pattern: { Regex: pattern }, behavior: "Isolated", invert: false },
        { type: "ByteLevel", add_prefix_space: false, trim_offsets: false, use_regex: false },
      ],
    },
    decoder: { type: "ByteLevel", add_prefix_space: false, trim_offsets: false, use_regex: false },
    model: {
      type: "BPE",
      ignore_merges: wholeWords,
      vocab: vocabularyOf(tokens),
      merges: texts(metadata.get("tokenizer.ggml.merges")),
    },
  };
}

function sentencePiece(metadata: Metadata, tokens: readonly string[]) {
  const scores = metadata.get("tokenizer.ggml.scores");
  if (!Array.isArray(scores) || scores.length !== tokens.length)
    fail("invalid_argument", "the GGUF file has not one score for each token of its vocabulary");
  const prefixed = metadata.get("tokenizer.ggml.add_space_prefix") !== false;
  const unknown = tokens[kinds(metadata).indexOf(unknownKind)] ?? "<unk>";
  const mark = { type: "Replace", pattern: { String: " " }, content: "▁" };
  return {
    normalizer: prefixed ? { type: "Sequence", normalizers: [{ type: "Prepend", prepend: "▁" }, mark] } : mark,
    pre_tokenizer: null,
    decoder: {
      type: "Sequence",
      decoders: [
        { type: "Replace", pattern: { String: "▁" }, content: " " },
        { type: "ByteFallback" },
        { type: "Fuse" },
        ...(prefixed ? [{ type: "Strip", content: " ", start: 1, stop: 0 }] : []),
      ],
    },
    model: {
      type: "BPE",
      unk_token: unknown,
      fuse_unk: true,
      byte_fallback: true,
      vocab: vocabularyOf(tokens),
      merges: mergesOf(tokens, scores.map(Number)),
    },
  };
}

/** Every way to put a token together from two others; better tokens first, and of equals those with longer parts. */
function mergesOf(tokens: readonly string[], scores: readonly number[]): [string, string][] {
  const ids = new Map(tokens.map((token, id) => [token, id]));
  const merges: { pair: [string, string]; score: number; ids: [number, number]; lengths: [number, number] }[] = [];
  for (const [id, token] of tokens.entries()) {
    const characters = [...token];
    const own: typeof merges = [];
    for (let cut = 1; cut < characters.length; cut++) {
      const pair: [string, string] = [characters.slice(0, cut).join(""), characters.slice(cut).join("")];
      const [left, right] = [ids.get(pair[0]), ids.get(pair[1])];
      if (left !== undefined && right !== undefined)
        own.push({ pair, score: scores[id] as number, ids: [left, right], lengths: [cut, characters.length - cut] });
    }
    own.sort((a, b) => b.ids[0] - a.ids[0] || b.ids[1] - a.ids[1]);
    merges.push(...own);
  }
  merges.sort((a, b) => b.score - a.score || b.lengths[0] - a.lengths[0] || b.lengths[1] - a.lengths[1]);
  return merges.map(({ pair }) => pair);
}
