// Derives a token stream from a text dataset. Splits keep their meaning: the tokens of each split lie together,
// as a range of the stream.

import { fail } from "../core/errors.ts";
import { sha256 } from "../core/hash.ts";
import { loadTokenizer } from "./bpe/json.ts";
import type { Tokenizer } from "./bpe/tokenizer.ts";
import { type BlobSink, type BuildOptions, buildTokens } from "./build.ts";
import { readSplit, textOfDocument } from "./documents.ts";
import { manifestHash, type SplitRule, type TextManifest, type TokensManifest } from "./manifest.ts";
import type { FetchBlob } from "./shard-cache.ts";

export interface TokeniseOptions {
  readonly manifest: TextManifest;
  /** A tokenizer.json. */
  readonly tokenizer: string;
  readonly fetchBlob: FetchBlob;
  readonly blobs: BlobSink;
  /** The token that ends a document; found among the usual ones if not named. Not used in running text. */
  readonly endToken?: string;
  readonly onProgress?: (progress: {
    readonly documents: number;
    readonly of: number;
    readonly tokens: number;
  }) => void;
}

const usualEndTokens = ["<|endoftext|>", "<|end_of_text|>", "</s>", "<|im_end|>", "<eos>"];

export async function tokenise(options: TokeniseOptions): Promise<TokensManifest> {
  const { manifest, blobs, fetchBlob, onProgress } = options;
  const tokenizer = loadTokenizer(options.tokenizer);
  const end = manifest.running ? undefined : endTokenOf(tokenizer, options.endToken);
  const build: BuildOptions = { blobs };
  const builder = buildTokens(tokenizer.vocabularySize, build);
  const names = Object.keys(manifest.splits).sort();
  const splits: Record<string, SplitRule> = {};
  let documents = 0;
  for (const name of names.length > 0 ? names : ["all"]) {
    const start = builder.tokens;
    for await (const document of readSplit(manifest, name, fetchBlob)) {
      // A document is a stranger's text: what looks like a special token in it is plain text.
      await builder.add(tokenizer.encode(textOfDocument(document), { parseSpecial: false }));
      if (end !== undefined) await builder.add([end]);
      documents++;
      onProgress?.({ documents, of: manifest.documents, tokens: builder.tokens });
    }
    if (name !== "all") splits[name] = { kind: "range", start, end: builder.tokens };
  }
  const text = new TextEncoder().encode(options.tokenizer);
  const hash = sha256(text);
  if ((await blobs.size(hash)) === undefined) await blobs.put(hash, text, text.byteLength);
  const origin = { dataset: manifestHash(manifest), operation: "tokenise" };
  return builder.finish({ splits, origin, tokenizer: hash });
}

/** The token that was named, or one of the usual ones if the vocabulary has it. */
export function endTokenOf(tokenizer: Tokenizer, wanted: string | undefined): number | undefined {
  if (wanted === undefined) {
    const known = usualEndTokens.find((token) => tokenizer.idOf(token) !== undefined);
    return known === undefined ? undefined : tokenizer.idOf(known);
  }
  const id = tokenizer.idOf(wanted);
  return id ?? fail("not_found", `the vocabulary has no token "${wanted}" to end documents with`);
}
