// Some samples of a dataset, for people to look at.

import { fail } from "../core/errors.ts";
import type { Tensor } from "../core/tensor.ts";
import { readSamples } from "./batches.ts";
import { loadTokenizer } from "./bpe/json.ts";
import { readDocuments, textOfDocument } from "./documents.ts";
import { type Manifest, type TokensManifest, unitsOf } from "./manifest.ts";
import { type FetchBlob, fetchVerified, openShardCache } from "./shard-cache.ts";

export interface ShownSample {
  readonly index: number;
  readonly fields: Readonly<Record<string, Tensor>>;
  /** Of text and of tokens whose vocabulary is known; empty otherwise. */
  readonly text: string;
}

export interface ShowRequest {
  readonly start: number;
  readonly count: number;
  /** Tokens of one sample of a token stream. */
  readonly context?: number;
}

export const shownSamplesMax = 100;
const contextDefault = 64;
const shownCharactersMax = 20_000;

export async function showSamples(
  manifest: Manifest,
  request: ShowRequest,
  fetchBlob: FetchBlob,
): Promise<ShownSample[]> {
  const { start, context = contextDefault } = request;
  if (!Number.isSafeInteger(start) || start < 0) fail("invalid_argument", `cannot start at sample ${start}: from 0 on`);
  if (!Number.isSafeInteger(context) || context < 1 || context > 65_536)
    fail("invalid_argument", `a context of ${context} tokens is impossible: from 1 to 65536`);
  const samples = manifest.kind === "tokens" ? Math.floor((manifest.tokens - 1) / context) : unitsOf(manifest);
  if (samples > 0 && start >= samples)
    fail("invalid_argument", `there is no sample ${start}: the dataset has ${samples}, from 0 to ${samples - 1}`);
  const end = Math.min(samples, start + Math.min(Math.max(0, request.count), shownSamplesMax));
  const indices = Array.from({ length: Math.max(0, end - start) }, (_, i) => start + i);
  if (manifest.kind === "text") {
    const shown: ShownSample[] = [];
    for await (const document of readDocuments(manifest, fetchBlob, start, end))
      shown.push({ index: document.index, fields: {}, text: textOfDocument(document).slice(0, shownCharactersMax) });
    return shown;
  }
  const cache = openShardCache({ fetchBlob, cacheBytesMax: 64 << 20 });
  const names = manifest.kind === "tensors" ? manifest.fields.map((field) => field.name) : ["inputs", "labels"];
  const spell = manifest.kind === "tokens" ? await speller(manifest, fetchBlob) : () => "";
  const shown: ShownSample[] = [];
  for (const index of indices) {
    const fields: Record<string, Tensor> = {};
    for (const name of names) {
      const { dtype, shape, data } = await readSamples(manifest, name, [index], cache, context);
      fields[name] = { dtype, shape: shape.slice(1), data };
    }
    shown.push({ index, fields, text: spell(fields["inputs"]) });
  }
  return shown;
}

async function speller(
  manifest: TokensManifest,
  fetchBlob: FetchBlob,
): Promise<(tokens: Tensor | undefined) => string> {
  if (!manifest.tokenizer) return () => "";
  const tokenizer = loadTokenizer(new TextDecoder().decode(await fetchVerified(fetchBlob, manifest.tokenizer)));
  return (tokens) => (tokens ? tokenizer.decode(tokens.data as Int32Array) : "");
}
