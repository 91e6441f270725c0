// Hugging Face's tokenizer.json, read and written: byte-level BPE (GPT-2, Llama 3, Qwen2), SentencePiece-like BPE with
// byte fallback (Llama 2, Gemma), Unigram and WordPiece. What is not understood is refused, never guessed.

import { fail, messageOf } from "../../core/errors.ts";
import { bpeEncoder } from "./bpe.ts";
import { type Merge, mergeTable } from "./merges.ts";
import { type Cut, type Json, listOf, readNormaliser, readPreTokenizer, textOf } from "./pieces.ts";
import { type AddedToken, openTokenizer, type Tokenizer } from "./tokenizer.ts";
import { unigramEncoder } from "./unigram.ts";
import { wordPieceEncoder, wordPieceText } from "./wordpiece.ts";

/** The largest vocabularies in use (about 260,000 tokens) take 35 MB. */
export const tokenizerTextMax = 64 << 20;
export const vocabularyMax = 1 << 20;
const addedMax = 20_000;
const spaceMark = "▁";

export function loadTokenizer(text: string): Tokenizer {
  if (text.length > tokenizerTextMax)
    fail("resource_exhausted", `the tokenizer has ${text.length} characters, at most ${tokenizerTextMax} are allowed`);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (thrown) {
    fail("invalid_argument", `the tokenizer is not JSON: ${messageOf(thrown)}`, thrown);
  }
  const json = objectOf(value, "the tokenizer");
  const model = objectOf(json["model"], "model");
  const added = readAdded(json["added_tokens"]);
  const { cuts, byteLevel } = readPreTokenizer(json["pre_tokenizer"]);
  const { before, after } = readTemplate(json["post_processor"]);
  // Found in a text before it is cut; whoever wants them spelt must not get them from the model after all.
  const control = new Set(added.filter(({ special }) => special).map(({ content }) => content));
  const shared = {
    added,
    normalise: readNormaliser(json["normalizer"]),
    byteLevel,
    before,
    after,
    stripLeadingSpace: stripsLeadingSpace(json["decoder"]),
  };
  switch (model["type"] ?? "BPE") {
    case "BPE": {
      const vocabulary = readVocabulary(model["vocab"]);
      const words = byteLevel ? cuts : [...cuts, ...wordsByMark(vocabulary)];
      const byteFallback = model["byte_fallback"] === true;
      return openTokenizer({
        ...shared,
        cuts: words,
        byteFallback,
        vocabulary,
        encodeWord: readBpe(model, vocabulary, byteLevel),
      });
    }
    case "Unigram":
      return openTokenizer({ ...shared, cuts, ...readUnigram(model, control) });
    case "WordPiece":
      return openTokenizer({ ...shared, cuts, byteFallback: false, ...readWordPiece(model, json["decoder"], control) });
    default:
      return fail(
        "unimplemented",
        `the tokenizer's model is ${JSON.stringify(model["type"])}: BPE, Unigram and WordPiece are supported`,
      );
  }
}

function readBpe(model: Json, vocabulary: ReadonlyMap<string, number>, byteLevel: boolean) {
  for (const key of ["continuing_subword_prefix", "end_of_word_suffix"])
    if (model[key]) fail("unimplemented", `the tokenizer's model uses ${key}, which is not supported`);
  const unknownToken = model["unk_token"];
  return bpeEncoder({
    vocabulary,
    merges: mergeTable(readMerges(model["merges"], vocabulary)),
    byteLevel,
    byteFallback: model["byte_fallback"] === true,
    unknown: typeof unknownToken === "string" ? vocabulary.get(unknownToken) : undefined,
    fuseUnknown: model["fuse_unk"] === true,
    ignoreMerges: model["ignore_merges"] === true,
  });
}

function readUnigram(model: Json, control: ReadonlySet<string>) {
  const pieces = listOf(model["vocab"]).map((item, id): [string, number] => {
    const [piece, score] = listOf(item);
    if (typeof piece !== "string" || typeof score !== "number")
      fail("invalid_argument", `piece ${id} of the tokenizer is not a text with a score`);
    return [piece, score];
  });
  if (pieces.length === 0 || pieces.length > vocabularyMax)
    fail("invalid_argument", `the tokenizer has ${pieces.length} tokens, expected 1 to ${vocabularyMax}`);
  const unknown =
    model["unk_id"] === null || model["unk_id"] === undefined ? undefined : idOf(model["unk_id"], "the unknown");
  if (unknown !== undefined && unknown >= pieces.length)
    fail("invalid_argument", `the tokenizer's unk_id ${unknown} is outside its ${pieces.length} pieces`);
  const byteFallback = model["byte_fallback"] === true;
  const vocabulary = new Map(pieces.map(([piece], id) => [piece, id]));
  return { vocabulary, byteFallback, encodeWord: unigramEncoder({ pieces, control, unknown, byteFallback }) };
}

function readWordPiece(model: Json, decoder: unknown, control: ReadonlySet<string>) {
  const vocabulary = readVocabulary(model["vocab"]);
  const token = textOf(model["unk_token"] ?? "[UNK]", "unk_token");
  const unknown =
    vocabulary.get(token) ??
    fail("invalid_argument", `the tokenizer's unknown token "${token}" is not in its vocabulary`);
  const prefix = textOf(model["continuing_subword_prefix"] ?? "##", "continuing_subword_prefix");
  const lengthMax = Number(model["max_input_chars_per_word"] ?? 100);
  const written = (decoder ?? {}) as Json;
  if (written["type"] !== "WordPiece")
    fail("unimplemented", `a WordPiece tokenizer with the decoder ${JSON.stringify(written["type"])} is not supported`);
  const cleanup = written["cleanup"] !== false;
  return {
    vocabulary,
    encodeWord: wordPieceEncoder({
      vocabulary: new Map([...vocabulary].filter(([piece]) => !control.has(piece))),
      unknown,
      prefix,
      lengthMax,
    }),
    textOf: (piece: string) => wordPieceText(piece, prefix, cleanup),
    stripLeadingSpace: true,
  };
}

function readVocabulary(value: unknown): Map<string, number> {
  const entries = Object.entries(objectOf(value, "model.vocab"));
  if (entries.length === 0 || entries.length > vocabularyMax)
    fail("invalid_argument", `the tokenizer has ${entries.length} tokens, expected 1 to ${vocabularyMax}`);
  const vocabulary = new Map<string, number>();
  for (const [token, id] of entries) vocabulary.set(token, idOf(id, `token ${token.slice(0, 40)}`));
  if (new Set(vocabulary.values()).size !== vocabulary.size)
    fail("invalid_argument", "the tokenizer gives one id to two tokens");
  return vocabulary;
}

/** Older files write merges as "left right", newer ones as pairs. */
function readMerges(value: unknown, vocabulary: ReadonlyMap<string, number>): Merge[] {
  const merges = listOf(value);
  if (merges.length > vocabularyMax * 2)
    fail("invalid_argument", `the tokenizer has ${merges.length} merges, too many`);
  return merges.map((item, rank) => {
    const pair = typeof item === "string" ? item.split(" ") : listOf(item);
    const [leftToken, rightToken] = pair;
    if (pair.length !== 2 || typeof leftToken !== "string" || typeof rightToken !== "string")
      fail("invalid_argument", `merge ${rank} of the tokenizer is not a pair of tokens`);
    const left = vocabulary.get(leftToken);
    const right = vocabulary.get(rightToken);
    const result = vocabulary.get(leftToken + rightToken);
    if (left === undefined || right === undefined || result === undefined)
      fail(
        "invalid_argument",
        `merge ${rank} of the tokenizer, "${leftToken} ${rightToken}", names a token that is not in its vocabulary`,
      );
    return { left, right, result };
  });
}

function readAdded(value: unknown): AddedToken[] {
  if (value === null || value === undefined) return [];
  const items = listOf(value);
  if (items.length > addedMax)
    fail("invalid_argument", `the tokenizer has ${items.length} added tokens, at most ${addedMax} are allowed`);
  return items.map((item) => {
    const json = objectOf(item, "an added token");
    const content = textOf(json["content"], "content");
    return {
      id: idOf(json["id"], `added token ${content.slice(0, 40)}`),
      content,
      special: json["special"] === true,
      lstrip: json["lstrip"] === true,
      rstrip: json["rstrip"] === true,
      singleWord: json["single_word"] === true,
    };
  });
}

function readTemplate(value: unknown): { before: number[]; after: number[] } {
  const none = { before: [], after: [] };
  if (value === null || value === undefined) return none;
  const json = objectOf(value, "post_processor");
  switch (json["type"]) {
    case "ByteLevel":
      return none;
    case "Sequence": {
      const parts = listOf(json["processors"]).map((one) => readTemplate(one));
      return { before: parts.flatMap((part) => part.before), after: parts.flatMap((part) => part.after) };
    }
    case "TemplateProcessing":
      return readSingle(json);
    case "BertProcessing":
      return { before: [pairedId(json["cls"])], after: [pairedId(json["sep"])] };
    default:
      fail("unimplemented", `the tokenizer's post_processor ${JSON.stringify(json["type"])} is not supported`);
  }
}

/** A token with its id. */
function pairedId(value: unknown): number {
  const [token, id] = listOf(value);
  return idOf(id, textOf(token, "token"));
}

function readSingle(json: Json): { before: number[]; after: number[] } {
  const before: number[] = [];
  const after: number[] = [];
  const specials = objectOf(json["special_tokens"] ?? {}, "special_tokens");
  let side = before;
  for (const item of listOf(json["single"])) {
    const part = objectOf(item, "a part of the template");
    if (part["Sequence"]) {
      side = after;
      continue;
    }
    const name = textOf(objectOf(part["SpecialToken"], "SpecialToken")["id"], "SpecialToken.id");
    for (const id of listOf(objectOf(specials[name], name)["ids"])) side.push(idOf(id, name));
  }
  return { before, after };
}

/**
 * Where no token has a space mark behind another character, no merge crosses the start of a word, so that
 * words can be encoded (and remembered) one by one with the same result as the whole text at once.
 */
function wordsByMark(vocabulary: ReadonlyMap<string, number>): Cut[] {
  for (const token of vocabulary.keys()) if (/[^▁]▁/u.test(token)) return [];
  return [
    (piece) => {
      const words: string[] = [];
      let start = 0;
      for (let at = piece.indexOf(spaceMark, 1); at >= 0; at = piece.indexOf(spaceMark, at + 1)) {
        if (piece[at - 1] === spaceMark) continue;
        words.push(piece.slice(start, at));
        start = at;
      }
      words.push(piece.slice(start));
      return words;
    },
  ];
}

function stripsLeadingSpace(value: unknown): boolean {
  if (value === null || typeof value !== "object") return false;
  const json = value as Json;
  switch (json["type"]) {
    case "Sequence":
      return listOf(json["decoders"]).some(stripsLeadingSpace);
    case "Strip":
      return json["content"] === " " && json["start"] === 1;
    case "Metaspace":
      return (json["prepend_scheme"] ?? (json["add_prefix_space"] === false ? "never" : "always")) !== "never";
    default:
      return false;
  }
}

function objectOf(value: unknown, what: string): Json {
  if (value === null || typeof value !== "object" || Array.isArray(value))
    fail("invalid_argument", `the tokenizer's ${what} must be a JSON object`);
  return value as Json;
}

function idOf(value: unknown, what: string): number {
  if (typeof value !== "number" || !Number.isInteger(value) || value < 0 || value >= vocabularyMax)
    fail(
      "invalid_argument",
      `the tokenizer gives ${what} the id ${JSON.stringify(value)}, expected 0 to ${vocabularyMax - 1}`,
    );
  return value;
}

export interface LearntVocabulary {
  /** In id order, spelt in the byte alphabet; special tokens come first. */
  readonly tokens: readonly string[];
  readonly specials: readonly string[];
  readonly merges: readonly (readonly [string, string])[];
}

/** A vocabulary that train.ts learnt, in the format that everyone reads. */
export function tokenizerJson({ tokens, specials, merges }: LearntVocabulary): string {
  const byteLevel = { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true };
  const added = specials.map((content, id) => {
    return { id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true };
  });
  return JSON.stringify({
    version: "1.0",
    truncation: null,
    padding: null,
    added_tokens: added,
    normalizer: null,
    pre_tokenizer: byteLevel,
    post_processor: null,
    decoder: byteLevel,
    model: {
      type: "BPE",
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      byte_fallback: false,
      ignore_merges: false,
      vocab: Object.fromEntries(tokens.map((token, id) => [token, id])),
      merges: merges.map(([left, right]) => [left, right]),
    },
  });
}
