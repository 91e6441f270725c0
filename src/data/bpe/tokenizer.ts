// A tokenizer that was read from tokenizer.json (json.ts): text to token ids and back. Nothing is out of
// vocabulary: what has no token of its own is spelt in bytes.

import { bytesOfSpelling } from "./alphabet.ts";
import { markedTokens, markOf } from "./marks.ts";
import { type Cut, escapeForPattern, type Normalise } from "./pieces.ts";
import {
  bytesOfToken,
  type DecodeOptions,
  decodeTokenBytes,
  type TokenDecoder,
  type TokenTable,
  tokenDecoder,
  tokenTable,
} from "./token-table.ts";
import { rememberedLengthMax, WordTable } from "./word-table.ts";

export interface AddedToken {
  readonly id: number;
  readonly content: string;
  /** Left out when text is decoded for people. */
  readonly special: boolean;
  /** White space before or after belongs to the token. */
  readonly lstrip: boolean;
  readonly rstrip: boolean;
  readonly singleWord: boolean;
}

/** Everything that tokenizer.json decides. */
export interface TokenizerParts {
  readonly vocabulary: ReadonlyMap<string, number>;
  /** Ids of a word that `normalise` and `cuts` have made. */
  readonly encodeWord: (word: string) => Int32Array;
  readonly added: readonly AddedToken[];
  readonly normalise: readonly Normalise[];
  readonly cuts: readonly Cut[];
  /** Tokens are spelt in the byte alphabet; otherwise in characters, with "▁" for a space. */
  readonly byteLevel: boolean;
  readonly byteFallback: boolean;
  /** How a token is written behind others, where that is not its spelling. */
  readonly textOf?: (token: string) => string;
  /** Ids put before and after an encoded text. */
  readonly before: readonly number[];
  readonly after: readonly number[];
  /** Decoding drops one space at the start. */
  readonly stripLeadingSpace: boolean;
}

export interface EncodeOptions {
  /** Adds what the model expects around a text (a token that begins it, for example). Default false. */
  readonly addSpecial?: boolean;
  /** At most so many ids: the text is cut at its end, what the model expects around it is not. Default: all. */
  readonly most?: number;
  /**
   * Takes "<|endoftext|>" in the text as the token. Default true; false for text from strangers; "marked" for text in
   * which marks (marks.ts) stand for special tokens, and only they do.
   */
  readonly parseSpecial?: boolean | "marked";
}

export interface Tokenizer {
  /** One more than the largest id. */
  readonly vocabularySize: number;
  readonly added: readonly AddedToken[];
  encode(text: string, options?: EncodeOptions): Int32Array;
  /** All that decoding needs. */
  readonly table: TokenTable;
  decode(ids: ArrayLike<number>, options?: DecodeOptions): string;
  decodeBytes(ids: ArrayLike<number>, options?: DecodeOptions): Uint8Array;
  decoder(options?: DecodeOptions): TokenDecoder;
  idOf(token: string): number | undefined;
  /** The token's bytes, as decoding writes them. */
  bytesOf(id: number): Uint8Array;
}

/** U+2581, which SentencePiece writes for a space. */
const spaceMark = "▁";

const encoder = new TextEncoder();

export function openTokenizer(parts: TokenizerParts): Tokenizer {
  const specials = parts.added.filter((token) => token.special).map((token) => token.id);
  const table = tokenTable(tokenBytes(parts), { specials, stripLeadingSpace: parts.stripLeadingSpace });
  const encodePlain = plainEncoder(parts);
  const addedByContent = new Map(parts.added.map((token) => [token.content, token]));
  const addedPattern = patternOf(addedByContent);
  const marked = markedSpellings(parts.added);
  const markedPattern = patternOf(marked);

  function encode(text: string, { addSpecial = false, parseSpecial = true, most }: EncodeOptions = {}): Int32Array {
    const out = openIds();
    if (addSpecial) for (const id of parts.before) out.push(id);
    const whole = text.isWellFormed() ? text : text.toWellFormed();
    let start = 0;
    const spellings = parseSpecial === "marked" ? marked : addedByContent;
    const pattern = parseSpecial === "marked" ? markedPattern : addedPattern;
    if (pattern && parseSpecial)
      for (const match of whole.matchAll(pattern)) {
        const token = spellings.get(match[0]) as AddedToken;
        if (token.singleWord && !standsAlone(whole, match.index, match[0].length)) continue;
        let end = match.index;
        if (token.lstrip) end = start + whole.slice(start, end).trimEnd().length;
        // A token before this one may have taken the space in front of it.
        encodePlain(whole.slice(start, Math.max(start, end)), start === 0, out);
        out.push(token.id);
        start = match.index + match[0].length;
        if (token.rstrip) start += whole.length - start - whole.slice(start).trimStart().length;
      }
    encodePlain(whole.slice(start), start === 0, out);
    const after = addSpecial ? parts.after : [];
    if (most !== undefined) out.cut(Math.max(0, most - after.length));
    for (const id of after) out.push(id);
    return out.take();
  }

  const decodeBytes = (ids: ArrayLike<number>, options?: DecodeOptions) => decodeTokenBytes(table, ids, options);

  return {
    vocabularySize: table.ends.length,
    added: parts.added,
    table,
    encode,
    decodeBytes,
    decode: (ids, options) => new TextDecoder("utf-8", { ignoreBOM: true }).decode(decodeBytes(ids, options)),
    decoder: (options) => tokenDecoder(table, options),
    idOf: (token) => addedByContent.get(token)?.id ?? parts.vocabulary.get(token),
    bytesOf: (id) => bytesOfToken(table, id),
  };
}

function standsAlone(text: string, start: number, length: number): boolean {
  const isWord = (character: string | undefined) => character !== undefined && /[\p{L}\p{N}_]/u.test(character);
  return !isWord(text[start - 1]) && !isWord(text[start + length]);
}

/** Marks of the special tokens; added tokens that are not special are spelt out as ever. */
function markedSpellings(added: readonly AddedToken[]): Map<string, AddedToken> {
  const spelt = added.filter((token) => !token.special).map((token) => [token.content, token] as const);
  return new Map([...spelt, ...markedTokens(added).map((token, index) => [markOf(index), token] as const)]);
}

/** The longest of those that match at a place wins. */
function patternOf(spellings: ReadonlyMap<string, AddedToken>): RegExp | undefined {
  const contents = [...spellings.keys()].filter((content) => content !== "");
  if (contents.length === 0) return undefined;
  contents.sort((a, b) => b.length - a.length);
  return new RegExp(contents.map(escapeForPattern).join("|"), "gu");
}

function tokenBytes({ vocabulary, added, byteLevel, byteFallback, textOf }: TokenizerParts): Uint8Array[] {
  let size = 0;
  for (const id of vocabulary.values()) size = Math.max(size, id + 1);
  for (const { id } of added) size = Math.max(size, id + 1);
  // Ids may have gaps; those decode to nothing.
  const all = new Array<Uint8Array>(size).fill(new Uint8Array(0));
  for (const [token, id] of vocabulary) {
    const byte = byteFallback ? fallbackByte(token) : undefined;
    if (byte !== undefined) all[id] = Uint8Array.of(byte);
    else if (textOf) all[id] = encoder.encode(textOf(token));
    else if (byteLevel) all[id] = bytesOfSpelling(token) ?? encoder.encode(token);
    else all[id] = encoder.encode(token.replaceAll(spaceMark, " "));
  }
  for (const { id, content } of added) all[id] = encoder.encode(textOf?.(content) ?? content);
  return all;
}

function fallbackByte(token: string): number | undefined {
  const match = /^<0x([0-9A-F]{2})>$/.exec(token);
  return match ? Number.parseInt(match[1] as string, 16) : undefined;
}

type EncodePlain = (text: string, first: boolean, out: Ids) => void;

/** Encodes text without added tokens: normalise, cut, spell each word, merge; words are remembered. */
function plainEncoder(parts: TokenizerParts): EncodePlain {
  const { normalise, cuts, encodeWord } = parts;
  const known = new WordTable();
  return (text, first, out) => {
    if (text === "") return;
    let normalised = text;
    for (const step of normalise) normalised = step(normalised);
    // Nothing is left of it: no mark of a space is put in front of nothing.
    if (normalised === "") return;
    let words = [normalised];
    for (const cut of cuts) words = words.length === 1 ? cut(words[0] as string, first) : cutAll(words, cut, first);
    for (const word of words) {
      if (word.length > rememberedLengthMax) {
        const ids = encodeWord(word);
        out.append(ids, 0, ids.length);
        continue;
      }
      let entry = known.find(word);
      if (entry < 0) entry = known.add(word, encodeWord(word));
      out.append(known.pool, known.startOf(entry), known.countOf(entry));
    }
  };
}

function cutAll(words: readonly string[], cut: Cut, first: boolean): string[] {
  const pieces: string[] = [];
  words.forEach((word, i) => {
    for (const piece of cut(word, first && i === 0)) pieces.push(piece);
  });
  return pieces;
}

interface Ids {
  push(id: number): void;
  append(from: Int32Array, start: number, count: number): void;
  /** Leaves out what is behind so many. */
  cut(most: number): void;
  take(): Int32Array;
}

function openIds(): Ids {
  let memory = new Int32Array(64);
  let count = 0;
  const grow = (needed: number) => {
    if (needed <= memory.length) return;
    const larger = new Int32Array(Math.max(needed, memory.length * 2));
    larger.set(memory);
    memory = larger;
  };
  return {
    push(id) {
      grow(count + 1);
      memory[count++] = id;
    },
    append(from, start, length) {
      grow(count + length);
      for (let i = 0; i < length; i++) memory[count++] = from[start + i] as number;
    },
    cut(most) {
      count = Math.min(count, most);
    },
    take: () => memory.slice(0, count),
  };
}
