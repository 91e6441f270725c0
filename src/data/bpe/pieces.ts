// What happens to text before BPE sees it: normalising and cutting into words, as tokenizer.json describes it.

import { fail } from "../../core/errors.ts";
import { written } from "../../core/words/written.ts";
import { readCharacterMap } from "./character-map.ts";
import { compilePattern, spaces, wordPattern } from "./pattern.ts";

export type Normalise = (text: string) => string;

/** Cuts one piece into several. `first`: the piece begins the text. */
export type Cut = (piece: string, first: boolean) => string[];

export type Json = Readonly<Record<string, unknown>>;

const nestingMax = 16;

export function readNormaliser(value: unknown, depth = 0): Normalise[] {
  if (value === null || value === undefined) return [];
  const json = value as Json;
  if (depth > nestingMax) fail("invalid_argument", "the tokenizer's normalizer is nested too deeply");
  switch (json["type"]) {
    case "Sequence":
      return listOf(json["normalizers"]).flatMap((one) => readNormaliser(one, depth + 1));
    case "NFC":
    case "NFD":
    case "NFKC":
    case "NFKD": {
      const form = json["type"];
      return [(text) => (isAscii(text) ? text : text.normalize(form))];
    }
    case "Lowercase":
      return [(text) => text.toLowerCase()];
    case "StripAccents":
      return [(text) => text.replace(/\p{Mn}/gu, "")];
    case "BertNormalizer":
      return bertNormaliser(json);
    case "Prepend": {
      const prefix = textOf(json["prepend"], "prepend");
      return [(text) => (text === "" ? text : prefix + text)];
    }
    case "Precompiled":
      return [readCharacterMap(textOf(json["precompiled_charsmap"] ?? "", "precompiled_charsmap"))];
    case "Strip": {
      const [left, right] = [json["strip_left"] !== false, json["strip_right"] !== false];
      return [(text) => (right ? (left ? text.trim() : text.trimEnd()) : left ? text.trimStart() : text)];
    }
    case "Replace": {
      const content = textOf(json["content"], "content");
      const pattern = readPattern(json["pattern"]);
      return [(text) => text.replace(pattern, () => content)];
    }
    default:
      fail("unimplemented", `the tokenizer's normalizer ${JSON.stringify(json["type"])} is not supported`);
  }
}

export interface Cutting {
  readonly cuts: readonly Cut[];
  readonly byteLevel: boolean;
}

export function readPreTokenizer(value: unknown, depth = 0): Cutting {
  if (value === null || value === undefined) return { cuts: [], byteLevel: false };
  const json = value as Json;
  if (depth > nestingMax) fail("invalid_argument", "the tokenizer's pre_tokenizer is nested too deeply");
  switch (json["type"]) {
    case "Sequence": {
      const parts = listOf(json["pretokenizers"]).map((one) => readPreTokenizer(one, depth + 1));
      if (parts.slice(0, -1).some((part) => part.byteLevel))
        fail("unimplemented", "a tokenizer whose ByteLevel step is not the last is not supported");
      return { cuts: parts.flatMap((part) => part.cuts), byteLevel: parts.at(-1)?.byteLevel ?? false };
    }
    case "ByteLevel": {
      const cuts: Cut[] = json["add_prefix_space"] === false ? [] : [prefixSpace];
      if (json["use_regex"] !== false) cuts.push(isolated(compilePattern(wordPattern)));
      return { cuts, byteLevel: true };
    }
    case "Split":
      return { cuts: [readSplit(json)], byteLevel: false };
    case "Digits": {
      const pattern = json["individual_digits"] === true ? /\p{N}/gu : /\p{N}+/gu;
      return { cuts: [isolated(pattern)], byteLevel: false };
    }
    case "Metaspace":
      return { cuts: readMetaspace(json), byteLevel: false };
    case "BertPreTokenizer":
      return { cuts: [withoutSpaces, isolated(bertPunctuation)], byteLevel: false };
    case "WhitespaceSplit":
      return { cuts: [withoutSpaces], byteLevel: false };
    default:
      fail("unimplemented", `the tokenizer's pre_tokenizer ${JSON.stringify(json["type"])} is not supported`);
  }
}

function readSplit(json: Json): Cut {
  const pattern = readPattern(json["pattern"]);
  const behavior = written(json["behavior"]).toLowerCase();
  const inverted = json["invert"] === true;
  switch (behavior) {
    case "isolated":
      return isolated(pattern);
    case "removed":
      // Inverted: what the pattern does not match is removed.
      return (piece) => {
        const kept = inverted ? piece.match(pattern) : piece.split(pattern);
        return (kept ?? []).filter((part) => part !== "");
      };
    case "mergedwithnext":
      if (inverted) break;
      return (piece) => mergedWithNext(piece, pattern);
    case "mergedwithprevious":
      if (inverted) break;
      return (piece) => mergedWithPrevious(piece, pattern);
    default:
      break;
  }
  fail("unimplemented", `the tokenizer's Split with behavior ${JSON.stringify(json["behavior"])} is not supported`);
}

function readMetaspace(json: Json): Cut[] {
  const mark = textOf(json["replacement"], "replacement");
  const scheme = json["prepend_scheme"] ?? (json["add_prefix_space"] === false ? "never" : "always");
  const prepend: Cut = (piece, first) => {
    const marked = piece.replaceAll(" ", mark);
    const wanted = scheme === "always" || (scheme === "first" && first);
    return [wanted && !marked.startsWith(mark) ? mark + marked : marked];
  };
  if (json["split"] === false) return [prepend];
  const pattern = new RegExp(escapeForPattern(mark), "gu");
  return [prepend, (piece) => mergedWithNext(piece, pattern)];
}

/** A space alone counts: a line break or a tab gets one in front. */
function prefixSpace(piece: string): string[] {
  return [piece === "" || piece.startsWith(" ") ? piece : ` ${piece}`];
}

/** Each match is a piece of its own, and so is what lies between two. */
export function isolated(pattern: RegExp): Cut {
  return (piece) => {
    const matches = piece.match(pattern) ?? [];
    let length = 0;
    for (const match of matches) length += match.length;
    // Most patterns match everything, and then there is nothing in between.
    return length === piece.length ? matches : isolatedWithGaps(piece, pattern);
  };
}

function isolatedWithGaps(piece: string, pattern: RegExp): string[] {
  const pieces: string[] = [];
  let end = 0;
  for (const match of piece.matchAll(pattern)) {
    if (match.index > end) pieces.push(piece.slice(end, match.index));
    if (match[0] !== "") pieces.push(match[0]);
    end = match.index + match[0].length;
  }
  if (end < piece.length) pieces.push(piece.slice(end));
  return pieces;
}

function mergedWithNext(piece: string, pattern: RegExp): string[] {
  const starts = [...piece.matchAll(pattern)].map((match) => match.index);
  const cuts = [0, ...starts.filter((start) => start > 0), piece.length];
  return cuts
    .slice(0, -1)
    .map((start, i) => piece.slice(start, cuts[i + 1]))
    .filter((part) => part !== "");
}

function mergedWithPrevious(piece: string, pattern: RegExp): string[] {
  const ends = [...piece.matchAll(pattern)].map((match) => match.index + match[0].length);
  const cuts = [0, ...ends.filter((end) => end < piece.length), piece.length];
  return cuts
    .slice(0, -1)
    .map((start, i) => piece.slice(start, cuts[i + 1]))
    .filter((part) => part !== "");
}

const whiteSpace = new RegExp(`[${spaces}]+`, "gu");

function withoutSpaces(piece: string): string[] {
  return piece.split(whiteSpace).filter((part) => part !== "");
}

/** ASCII's symbols count too. */
const bertPunctuation = /[\p{P}$+<=>^`|~]/gu;

/** Characters that have no words of several: each of them is a word. */
const ideographs =
  /[\u4e00-\u9fff\u3400-\u4dbf\u{20000}-\u{2a6df}\u{2a700}-\u{2b73f}\u{2b740}-\u{2b81f}\u{2b920}-\u{2ceaf}\uf900-\ufaff\u{2f800}-\u{2fa1f}]/gu;

function bertNormaliser(json: Json): Normalise[] {
  const steps: Normalise[] = [];
  const lowercase = json["lowercase"] !== false;
  if (json["clean_text"] !== false)
    steps.push((text) => text.replace(/[\0\ufffd]|(?![\t\n\r])\p{C}/gu, "").replace(oneSpace, " "));
  if (json["handle_chinese_chars"] !== false) steps.push((text) => text.replace(ideographs, " $& "));
  if (json["strip_accents"] ?? lowercase) steps.push((text) => text.normalize("NFD").replace(/\p{Mn}/gu, ""));
  if (lowercase) steps.push((text) => text.toLowerCase());
  return steps;
}

const oneSpace = new RegExp(`[${spaces}]`, "gu");

function readPattern(value: unknown): RegExp {
  const json = (value ?? {}) as Json;
  if (typeof json["Regex"] === "string") return compilePattern(json["Regex"]);
  if (typeof json["String"] === "string") return new RegExp(escapeForPattern(json["String"]), "gu");
  fail(
    "invalid_argument",
    `the tokenizer has the pattern ${JSON.stringify(value)?.slice(0, 200)}, expected a Regex or a String`,
  );
}

export function escapeForPattern(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
}

function isAscii(text: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: all of ASCII is meant
  return /^[\x00-\x7f]*$/.test(text);
}

export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value)
    ? value
    : fail("invalid_argument", "the tokenizer has something else where a list is expected");
}

export function textOf(value: unknown, what: string): string {
  return typeof value === "string" ? value : fail("invalid_argument", `the tokenizer's "${what}" must be a text`);
}
