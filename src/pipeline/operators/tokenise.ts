// From rows with texts to runs of tokens, one a row. Texts are strangers': what looks like a special token in them is plain text.

import type { Work } from "../../core/aside.ts";
import { sha256 } from "../../core/hash.ts";
import { loadTokenizer } from "../../data/bpe/json.ts";
import type { Tokenizer } from "../../data/bpe/tokenizer.ts";
import { endTokenOf } from "../../data/tokenise.ts";
import { pipelineLane, putShard } from "../kit.ts";
import { needRows, type Operator } from "../operator.ts";
import {
  type Output,
  RecordWriter,
  recordOfTokens,
  recordsOf,
  rowOf,
  type TokenFacts,
  textOf,
  tokenWidth,
} from "../records.ts";
import { fieldsOf, optionalText, text } from "../settings.ts";
import { eachShard } from "./each-shard.ts";

interface TokeniseInput {
  readonly content: Uint8Array;
  /** A tokenizer.json and its hash. */
  readonly vocabulary: string;
  readonly hash: string;
  readonly field: string;
  /** Ends each row. */
  readonly end?: number;
  readonly where: string;
}

let remembered: { readonly hash: string; readonly tokenizer: Tokenizer } | undefined;

export const tokenising: Work<TokeniseInput, { readonly content: Uint8Array; readonly count: number }> = {
  lane: pipelineLane,
  module: import.meta.url,
  name: "tokenising",
  what: "texts that are tokenised",
  deadlineMs: 300_000,
  run: ({ content, vocabulary, hash, field, end, where }) => {
    if (remembered?.hash !== hash) remembered = { hash, tokenizer: loadTokenizer(vocabulary) };
    const { tokenizer } = remembered;
    const width = tokenWidth({ vocabulary: tokenizer.vocabularySize });
    const made = new RecordWriter();
    for (const record of recordsOf(content)) {
      const tokens = tokenizer.encode(textOf(rowOf(record), field, where), { parseSpecial: false });
      made.add(recordOfTokens(tokens, width, end));
    }
    return [made.take()];
  },
};

export const tokenise: Operator = {
  name: "tokenise",
  version: 1,
  reads: "one",
  read(given, where) {
    const fields = fieldsOf(
      typeof given === "string" ? { vocabulary: given } : given,
      ["vocabulary", "field", "end-token"],
      where,
    );
    const endToken = optionalText(fields, "end-token", where);
    return {
      vocabulary: text(fields, "vocabulary", where),
      field: text(fields, "field", where, "text"),
      ...(endToken === undefined ? {} : { endToken }),
    };
  },
  gives(formats, _settings, _facts, where) {
    needRows(formats, where);
    return "tokens";
  },
  async look(settings, outside) {
    const vocabulary = await outside.vocabulary(settings["vocabulary"] as string);
    const tokenizer = loadTokenizer(vocabulary);
    const end = endTokenOf(tokenizer, settings["endToken"] as string | undefined);
    return {
      tokenizer: sha256(vocabulary),
      vocabulary: tokenizer.vocabularySize,
      ...(end === undefined ? {} : { end }),
    };
  },
  async run({ settings, facts, inputs, kit, outside, where }): Promise<Output> {
    const { running, ...input } = inputs[0] as Output;
    const vocabulary = await outside.vocabulary(settings["vocabulary"] as string);
    await kit.blobs.put(new TextEncoder().encode(vocabulary));
    const tokens = facts as unknown as TokenFacts;
    const common = { vocabulary, hash: sha256(vocabulary), field: settings["field"] as string, where };
    const end = running ? undefined : tokens.end;
    const made = await eachShard(input, kit, async (shard) => {
      const content = await kit.blobs.get(shard.hash);
      const { content: cut, count } = await kit.aside(tokenising, {
        ...common,
        content,
        ...(end !== undefined && { end }),
      });
      return putShard(kit.blobs, cut, count);
    });
    return { format: "tokens", parts: made.parts, ...(running && { running }), tokens };
  },
};
