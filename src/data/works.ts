// Vocabularies as works for another thread (core/aside.ts): a file of 35 MB takes a second or two to read, and its patterns
// are a stranger's.

import type { Lane, Work } from "../core/aside.ts";
import { loadTokenizer } from "./bpe/json.ts";

/** Of everything about text: vocabularies, chat templates, prompts. Some vocabularies at once have room. */
export const textLane: Lane = { name: "text", memoryMib: 2_048, idleMs: 600_000 };

/** The largest vocabularies take seconds, and machines may be busy. */
export const vocabularyDeadlineMs = 30_000;

/** From a tokenizer.json to the number of its tokens. */
export const checkingVocabulary: Work<Uint8Array, number> = {
  lane: textLane,
  module: import.meta.url,
  name: "checkingVocabulary",
  what: "the vocabulary",
  deadlineMs: vocabularyDeadlineMs,
  run: (content) => [loadTokenizer(new TextDecoder().decode(content)).vocabularySize],
};
