// From what a step made to a dataset: rows become documents or samples, tokens a stream; parts become its splits. Shards are uploaded
// as they are cut, and whoever is killed goes on behind those that were.

import { fail } from "../core/errors.ts";
import { canonicalJson, sha256 } from "../core/hash.ts";
import type { Sha256 } from "../core/ids.ts";
import {
  type BlobSink,
  type BuildCheckpoint,
  type BuildOptions,
  buildTensors,
  buildText,
  buildTokens,
  type FieldSpec,
} from "../data/build.ts";
import { fieldsOfRow, valuesOfRow } from "../data/formats/rows.ts";
import { classNumbers, findClasses } from "../data/imports/classes.ts";
import { type Manifest, manifestText, parseManifest, type Shard, type SplitRule } from "../data/manifest.ts";
import type { Blobs, Note } from "./kit.ts";
import {
  allPart,
  bytesOf,
  countOf,
  type Output,
  type Row,
  recordHeadBytes,
  recordsOf,
  rowOf,
  shardsOfOutput,
  tokensOf,
  tokenWidth,
} from "./records.ts";
import { hashOfOutput } from "./run.ts";
import type { Workshop } from "./workshop.ts";

/** Counts changes of what is made of the same output. */
const version = 1;

export interface SaveOptions {
  readonly workshop: Workshop;
  readonly blobs: BlobSink;
  /** Where the blobs go to: what is uploaded to one network is not in another. */
  readonly target: string;
  readonly onProgress: (done: number, total: number) => void;
}

interface Saving {
  readonly output: Output;
  readonly build: BuildOptions;
  /** Records from a shard on before which at most `skip` units lie, and how many do; shards before it are not read. */
  readonly records: (skip: number) => { readonly skipped: number; readonly records: AsyncGenerator<Uint8Array> };
}

function saveKey(output: Output, target: string): Sha256 {
  return sha256(canonicalJson({ save: hashOfOutput(output), version, target }));
}

/** The manifest; all its blobs are uploaded. One that was made before is taken as it is, until `forgetSaved`. */
export async function saveOutput(output: Output, where: string, options: SaveOptions): Promise<Manifest> {
  const { workshop, blobs, target, onProgress } = options;
  const key = saveKey(output, target);
  const known = (await workshop.result(key)) as { readonly manifest: string } | undefined;
  if (known) return parseManifest(known.manifest);
  if (countOf(output) === 0)
    fail("failed_precondition", `${where} has nothing left: a dataset needs at least one record`);
  const bench = await workshop.bench(key);
  const note: Note<BuildCheckpoint> = bench.note("save");
  const onCheckpoint = (checkpoint: BuildCheckpoint) => note.write(checkpoint);
  const build = { blobs, onCheckpoint, ...(note.last && { resume: note.last }) };
  const records = (skip: number) => recordsBehind(skip, output, workshop.blobs, onProgress);
  const saving = { output, build, records };
  const manifest = output.tokens ? await saveTokens(saving, workshop.blobs, blobs) : await saveRows(saving, where);
  await workshop.finish(key, { manifest: manifestText(manifest) });
  await bench.clear();
  return manifest;
}

/** The network does not have its blobs any more: the next time they are uploaded again. */
export function forgetSaved(output: Output, target: string, workshop: Workshop): Promise<void> {
  return workshop.forget(saveKey(output, target));
}

/** Tokens of a shard of tokens, records of one of rows: what datasets count. */
function unitsOf({ bytes, count }: Shard, { tokens }: Output): number {
  return tokens ? (bytes - count * recordHeadBytes) / tokenWidth(tokens) : count;
}

function recordsBehind(skip: number, output: Output, blobs: Blobs, onProgress: SaveOptions["onProgress"]) {
  const shards = shardsOfOutput(output);
  const total = bytesOf(output);
  let first = 0;
  let skipped = 0;
  let done = 0;
  for (; first < shards.length; first++) {
    const shard = shards[first] as Shard;
    if (skipped + unitsOf(shard, output) > skip) break;
    skipped += unitsOf(shard, output);
    done += shard.bytes;
  }
  async function* records(): AsyncGenerator<Uint8Array> {
    for (const shard of shards.slice(first)) {
      yield* recordsOf(await blobs.get(shard.hash));
      done += shard.bytes;
      onProgress(done, total);
    }
  }
  return { skipped, records: records() };
}

/** Parts lie one after another. */
function splitsOf(output: Output): Record<string, SplitRule> {
  const splits: Record<string, SplitRule> = {};
  let start = 0;
  for (const { name, shards } of output.parts) {
    const end = start + shards.reduce((sum, shard) => sum + unitsOf(shard, output), 0);
    if (name !== allPart) splits[name] = { kind: "range", start, end };
    start = end;
  }
  return splits;
}

async function saveTokens({ output, build, records }: Saving, blobs: Blobs, sink: BlobSink): Promise<Manifest> {
  const facts = output.tokens ?? fail("internal", "tokens have a vocabulary");
  const builder = buildTokens(facts.vocabulary, build);
  const { skipped, records: from } = records(builder.tokens);
  let skip = builder.tokens - skipped;
  for await (const record of from) {
    const tokens = tokensOf(record, tokenWidth(facts));
    const left = tokens.subarray(Math.min(skip, tokens.length));
    skip -= tokens.length - left.length;
    if (left.length > 0) await builder.add(left);
  }
  const { tokenizer } = facts;
  if (tokenizer) {
    const text = await blobs.get(tokenizer);
    await sink.put(tokenizer, text, text.byteLength);
  }
  return builder.finish({ splits: splitsOf(output), ...(tokenizer && { tokenizer }) });
}

async function saveRows(saving: Saving, where: string): Promise<Manifest> {
  let first: Row | undefined;
  for await (const record of saving.records(0).records) {
    first = rowOf(record);
    break;
  }
  return first && "inputs" in first ? saveSamples(saving, first, where) : saveTexts(saving, where);
}

async function saveTexts({ output, build, records }: Saving, where: string): Promise<Manifest> {
  const builder = buildText(output.running ?? false, build);
  const encoder = new TextEncoder();
  const skip = builder.documents;
  const { skipped, records: from } = records(skip);
  let row = skipped;
  for await (const record of from) {
    if (row++ < skip) continue;
    const { text } = rowOf(record);
    if (typeof text !== "string")
      fail(
        "failed_precondition",
        `${where}: row ${row} has neither a text in "text" nor numbers in "inputs": a dataset is made of those`,
      );
    await builder.add(encoder.encode(text.toWellFormed()));
  }
  return builder.finish({ splits: splitsOf(output) });
}

async function saveSamples({ output, build, records }: Saving, first: Row, where: string): Promise<Manifest> {
  const sample = sampleOf(first);
  const isNamed = typeof sample["labels"] === "string";
  const classes = isNamed ? (await findClasses(samplesIn(records(0).records, where, 0))).names : undefined;
  const fields: readonly FieldSpec[] = fieldsOfRow(sample, {}, `${where}: the first row`, classes);
  const numberOf = classes && classNumbers(classes);
  const builder = buildTensors(fields, build);
  const skip = builder.samples;
  const { skipped, records: from } = records(skip);
  let count = skipped;
  for await (const { row, where: which } of samplesIn(from, where, skipped)) {
    if (count++ < skip) continue;
    const labelled = numberOf ? { ...row, labels: numberOf(row["labels"], which) } : row;
    await builder.add(valuesOfRow(labelled, fields, which));
  }
  return builder.finish({ splits: splitsOf(output) });
}

function sampleOf(row: Row): Row {
  return "labels" in row ? { inputs: row["inputs"], labels: row["labels"] } : { inputs: row["inputs"] };
}

async function* samplesIn(
  records: AsyncIterable<Uint8Array>,
  where: string,
  before: number,
): AsyncGenerator<{ row: Row; where: string }> {
  let number = before;
  for await (const record of records) yield { row: sampleOf(rowOf(record)), where: `${where}: row ${++number}` };
}
