// Schemas and vocabularies as works for another thread (core/aside.ts): both are a stranger's, and large ones take a while.

import type { Work } from "../../core/aside.ts";
import { loadTokenizer } from "../../data/bpe/json.ts";
import { textLane, vocabularyDeadlineMs } from "../../data/works.ts";
import { distancesOf, type Grammar } from "./grammar.ts";
import { compileSchema } from "./schema.ts";
import { type OrderedVocabulary, orderVocabulary } from "./vocabulary.ts";

const common = { lane: textLane, module: import.meta.url };
/** The largest that is allowed takes a tenth of it. */
const schemaDeadlineMs = 5_000;

export interface SchemaText {
  readonly schema: string;
  /** What errors call it. */
  readonly place: string;
}

/** Fails with `unimplemented` or `invalid_argument` and the place in the schema. */
export const checkingSchema: Work<SchemaText, true> = {
  ...common,
  name: "checkingSchema",
  what: "the schema",
  deadlineMs: schemaDeadlineMs,
  run: ({ schema, place }) => {
    compileSchema(schema, place);
    return [true];
  },
};

export interface CompiledSchema {
  readonly grammar: Grammar;
  /** Of each node to the end of its rule, by bytes that the vocabulary has. */
  readonly distances: Float64Array;
}

export const compilingSchema: Work<{ readonly schema: string; readonly writable: readonly number[] }, CompiledSchema> =
  {
    ...common,
    name: "compilingSchema",
    what: "the schema",
    deadlineMs: schemaDeadlineMs,
    run: ({ schema, writable }) => {
      const grammar = compileSchema(schema);
      const bytes = new Set(writable);
      return [{ grammar, distances: distancesOf(grammar, (byte) => bytes.has(byte)) }];
    },
  };

export interface VocabularyFile {
  /** A tokenizer.json. */
  readonly tokenizer: Uint8Array;
  /** Tokens that the model knows. */
  readonly size: number;
}

export const orderingVocabulary: Work<VocabularyFile, OrderedVocabulary> = {
  ...common,
  name: "orderingVocabulary",
  what: "the model's vocabulary",
  deadlineMs: vocabularyDeadlineMs,
  run: ({ tokenizer, size }) => [orderVocabulary(loadTokenizer(new TextDecoder().decode(tokenizer)).table, size)],
};
