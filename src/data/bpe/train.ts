// Learns a byte-level BPE vocabulary: words are counted once, then the most frequent pair of neighbours is
// joined, again and again. Only the words that hold the pair are looked at, and only their pairs' counts change.
// The result depends on the text alone: of equally frequent pairs the one with the lower ids comes first.

import { fail } from "../../core/errors.ts";
import { byteCharacter, spellBytes } from "./alphabet.ts";
import type { LearntVocabulary } from "./json.ts";
import { compilePattern, wordPattern } from "./pattern.ts";
import { isolated } from "./pieces.ts";

export interface TrainOptions {
  /** Tokens in all: special ones, 256 bytes, and what is learnt. */
  readonly vocabularySize: number;
  readonly specials?: readonly string[];
  /** Pairs that are rarer than this are not joined. */
  readonly frequencyMin?: number;
  readonly onProgress?: (progress: TrainProgress) => void;
}

export type TrainProgress =
  | { readonly phase: "counting"; readonly characters: number; readonly words: number }
  | { readonly phase: "merging"; readonly merges: number; readonly of: number };

/** About 1 GB with their counts and pairs; beyond it the words seen once are forgotten. */
const distinctWordsMax = 4_000_000;
/** A longer run without a space is no word; it is counted in parts. */
const wordLengthMax = 256;
const mergesBetweenPauses = 100;

export async function trainBpe(
  texts: AsyncIterable<string> | Iterable<string>,
  options: TrainOptions,
): Promise<LearntVocabulary> {
  const { vocabularySize, specials = [], onProgress } = options;
  if (!Number.isSafeInteger(vocabularySize) || vocabularySize < 256 + specials.length || vocabularySize > 1 << 20)
    fail(
      "invalid_argument",
      `a vocabulary of ${vocabularySize} tokens is impossible: from ${256 + specials.length} to ${1 << 20}`,
    );
  if (new Set(specials).size !== specials.length) fail("invalid_argument", "a special token is named twice");
  const counter = countWords();
  for await (const text of texts) {
    counter.add(text);
    onProgress?.({ phase: "counting", characters: counter.characters, words: counter.words.size });
  }
  if (counter.words.size === 0) fail("invalid_argument", "there is no text to learn a vocabulary from");
  return learnMerges(counter.words, options);
}

function countWords() {
  const words = new Map<string, number>();
  const cut = isolated(compilePattern(wordPattern));
  let characters = 0;
  return {
    words,
    get characters() {
      return characters;
    },
    add(text: string): void {
      characters += text.length;
      for (const word of cut(text.toWellFormed(), true)) {
        if (word.length <= wordLengthMax) words.set(word, (words.get(word) ?? 0) + 1);
        else for (const part of partsOf(word)) words.set(part, (words.get(part) ?? 0) + 1);
      }
      if (words.size > distinctWordsMax) for (const [word, count] of words) if (count === 1) words.delete(word);
    },
  };
}

function partsOf(word: string): string[] {
  const characters = [...word];
  const parts: string[] = [];
  for (let start = 0; start < characters.length; start += wordLengthMax)
    parts.push(characters.slice(start, start + wordLengthMax).join(""));
  return parts;
}

interface Pair {
  readonly left: number;
  readonly right: number;
  count: number;
  /** Words that hold the pair, or held it once; a word may be named twice. */
  words: number[];
}

/** Ids stay below it, so that a pair is one exact number. */
const pairBase = 2 ** 21;

async function learnMerges(words: ReadonlyMap<string, number>, options: TrainOptions): Promise<LearntVocabulary> {
  const { vocabularySize, specials = [], frequencyMin = 2, onProgress } = options;
  // The alphabet in the order of its characters, as others do it, so that equal text gives equal vocabularies.
  const alphabet = Array.from({ length: 256 }, (_, byte) => byteCharacter(byte)).sort();
  const tokens = [...specials, ...alphabet];
  const idOfCharacter = new Map(alphabet.map((character, i) => [character, specials.length + i]));
  const merges: [string, string][] = [];
  const state = openPairs(words, idOfCharacter);
  const wanted = vocabularySize - tokens.length;
  const idOfToken = new Map(tokens.map((token, id) => [token, id]));
  while (merges.length < wanted) {
    const best = state.takeBest();
    if (!best || best.count < frequencyMin) break;
    const pair: [string, string] = [tokens[best.left] as string, tokens[best.right] as string];
    const text = pair[0] + pair[1];
    // Two pairs may spell the same token; it keeps its first id.
    let id = idOfToken.get(text);
    if (id === undefined) {
      id = tokens.push(text) - 1;
      idOfToken.set(text, id);
    }
    merges.push(pair);
    state.join(best, id);
    if (merges.length % mergesBetweenPauses === 0) {
      onProgress?.({ phase: "merging", merges: merges.length, of: wanted });
      await Promise.resolve();
    }
  }
  onProgress?.({ phase: "merging", merges: merges.length, of: wanted });
  return { tokens, specials, merges };
}

/** The words as runs of ids, and every pair in them with its count. */
function openPairs(words: ReadonlyMap<string, number>, idOfCharacter: ReadonlyMap<string, number>) {
  const encoder = new TextEncoder();
  const runs: Int32Array[] = [];
  const counts: number[] = [];
  const pairs = new Map<number, Pair>();
  const heap = openPairHeap();

  function change(left: number, right: number, by: number, word: number, touched?: Set<Pair>): void {
    const key = left * pairBase + right;
    let pair = pairs.get(key);
    if (!pair) {
      pair = { left, right, count: 0, words: [] };
      pairs.set(key, pair);
    }
    pair.count += by;
    if (by > 0) {
      if (pair.words.at(-1) !== word) pair.words.push(word);
      touched?.add(pair);
    }
  }

  for (const [text, count] of words) {
    const spelling = spellBytes(encoder.encode(text));
    const run = Int32Array.from(spelling, (character) => idOfCharacter.get(character) as number);
    const word = runs.push(run) - 1;
    counts.push(count);
    for (let i = 0; i + 1 < run.length; i++) change(run[i] as number, run[i + 1] as number, count, word);
  }
  for (const pair of pairs.values()) heap.push(pair, pair.count);

  /** Joins the pair in one word, from the left, and moves the counts of its neighbours. */
  function joinInWord(word: number, { left, right }: Pair, id: number, touched: Set<Pair>): void {
    const run = runs[word] as Int32Array;
    const count = counts[word] as number;
    let length = 0;
    for (let i = 0; i < run.length; i++) {
      if (run[i] !== left || run[i + 1] !== right || i + 1 >= run.length) {
        run[length++] = run[i] as number;
        continue;
      }
      if (length > 0) {
        const before = run[length - 1] as number;
        change(before, left, -count, word);
        change(before, id, count, word, touched);
      }
      if (i + 2 < run.length) {
        const after = run[i + 2] as number;
        change(right, after, -count, word);
        change(id, after, count, word, touched);
      }
      run[length++] = id;
      i++;
    }
    if (length < run.length) runs[word] = run.slice(0, length);
  }

  return {
    /** The most frequent pair. Counts in the heap may be too high, never too low: then it is put back with the true one. */
    takeBest(): Pair | undefined {
      for (;;) {
        const top = heap.pop();
        if (!top) return undefined;
        if (top.count === top.pair.count) return top.count > 0 ? top.pair : undefined;
        if (top.pair.count > 0 && top.count > top.pair.count) heap.push(top.pair, top.pair.count);
      }
    },
    join(pair: Pair, id: number): void {
      const touched = new Set<Pair>();
      const { words: holders } = pair;
      pair.words = [];
      for (const word of holders) joinInWord(word, pair, id, touched);
      pairs.delete(pair.left * pairBase + pair.right);
      // Whatever the heap still has of it is void.
      pair.count = 0;
      for (const grown of touched) if (grown.count > 0) heap.push(grown, grown.count);
    },
  };
}

interface HeapEntry {
  readonly pair: Pair;
  /** As it was when the entry was made. */
  readonly count: number;
}

/** Most frequent first, then the lower ids. */
function comesBefore(a: HeapEntry, b: HeapEntry): boolean {
  if (a.count !== b.count) return a.count > b.count;
  if (a.pair.left !== b.pair.left) return a.pair.left < b.pair.left;
  return a.pair.right < b.pair.right;
}

function openPairHeap() {
  const items: HeapEntry[] = [];
  return {
    push(pair: Pair, count: number): void {
      const entry = { pair, count };
      let at = items.push(entry) - 1;
      while (at > 0) {
        const parent = (at - 1) >> 1;
        if (!comesBefore(entry, items[parent] as HeapEntry)) break;
        items[at] = items[parent] as HeapEntry;
        at = parent;
      }
      items[at] = entry;
    },
    pop(): HeapEntry | undefined {
      const top = items[0];
      const last = items.pop();
      if (!top || !last || items.length === 0) return top;
      let at = 0;
      for (;;) {
        let child = at * 2 + 1;
        if (child >= items.length) break;
        if (child + 1 < items.length && comesBefore(items[child + 1] as HeapEntry, items[child] as HeapEntry)) child++;
        if (!comesBefore(items[child] as HeapEntry, last)) break;
        items[at] = items[child] as HeapEntry;
        at = child;
      }
      items[at] = last;
      return top;
    },
  };
}
