// A dataset's manifest: which blobs hold it, how samples lie in them and how it is split. Its hash is the
// dataset's identity, so it says nothing about names, places or time. Manifests come from strangers too:
// parseManifest believes nothing.

import { fail } from "../core/errors.ts";
import { canonicalJson, sha256 } from "../core/hash.ts";
import { parseId, type Sha256 } from "../core/ids.ts";
import { type DType, elementCount, type Shape, tensorBytes } from "../core/tensor.ts";
import { readClasses } from "./imports/classes.ts";
import { hash, integer, type Json, list, onlyKeys, record, share, string } from "./json-checks.ts";

export interface Shard {
  readonly hash: Sha256;
  readonly bytes: number;
  /** Samples of a field, tokens of a stream, documents of a text. */
  readonly count: number;
}

/** One column of a tensor dataset. It has its own shards, so that who needs labels fetches no inputs. */
export interface Field {
  readonly name: string;
  readonly dtype: DType;
  /** Of one sample. */
  readonly shape: Shape;
  /** Batches give float32 values multiplied by it (1/255 for images in bytes); absent: values as they are. */
  readonly scale?: number;
  /** What the numbers stand for, if the source had texts: 0 is the first. */
  readonly classes?: readonly string[];
  readonly shards: readonly Shard[];
}

export type TokenType = "uint16" | "int32";

/** Which samples belong to a split; a pure rule, the same on every machine. */
export type SplitRule =
  /** Of samples, of tokens in a token stream, of documents in a text. `end` is exclusive. */
  | { readonly kind: "range"; readonly start: number; readonly end: number }
  /** A seeded draw: shares [from, to) of each run of `splitRunSamples` samples. */
  | { readonly kind: "ratio"; readonly seed: number; readonly from: number; readonly to: number }
  /** A blob of ascending uint32 indices, little-endian: what a split by content hash comes to. */
  | { readonly kind: "list"; readonly hash: Sha256; readonly count: number };

export type Splits = Readonly<Record<string, SplitRule>>;

/** The dataset that this one was made from, by which rule. */
export interface Origin {
  readonly dataset: Sha256;
  readonly operation: string;
}

interface ManifestBase {
  readonly version: 1;
  readonly splits: Splits;
  readonly origin?: Origin;
}

export interface TensorsManifest extends ManifestBase {
  readonly kind: "tensors";
  readonly samples: number;
  readonly fields: readonly Field[];
  /** Shuffling moves runs of this many neighbours together, so that an epoch reads shards one after another. */
  readonly chunk: number;
}

/** One long stream. Sample i of context T is tokens [i*T, i*T + T), its labels are shifted by one. */
export interface TokensManifest extends ManifestBase {
  readonly kind: "tokens";
  readonly tokens: number;
  readonly tokenType: TokenType;
  /** Every token is below it. */
  readonly vocabulary: number;
  /** Blob of the tokenizer.json that made the tokens; absent if they came as numbers. */
  readonly tokenizer?: Sha256;
  readonly shards: readonly Shard[];
}

/** UTF-8 documents, each followed by `documentEnd`; tokenising derives a token stream from them. */
export interface TextManifest extends ManifestBase {
  readonly kind: "text";
  readonly documents: number;
  /** Pieces of one running text rather than texts of their own: nothing marks where one ends. */
  readonly running: boolean;
  readonly shards: readonly Shard[];
}

export type Manifest = TensorsManifest | TokensManifest | TextManifest;

/** Room for more than 100,000 shards. */
export const manifestBytesMax = 16 << 20;
export const shardsMax = 100_000;
/** A shard is fetched and verified whole, and several are in memory at once. */
export const shardBytesMax = 64 << 20;
export const fieldsMax = 16;
export const splitsMax = 16;
export const sampleBytesMax = 32 << 20;
/** Indices are uint32 in split lists and in the shuffle. */
export const samplesMax = 2 ** 32 - 1;
/** A draw by ratio happens within runs of this length, which keeps neighbours together. */
export const splitRunSamples = 1024;
/** UTF-8 never contains this byte. */
export const documentEnd = 0xff;
const rankMax = 8;

export function manifestText(manifest: Manifest): string {
  return canonicalJson(manifest);
}

export function manifestHash(manifest: Manifest): Sha256 {
  return sha256(manifestText(manifest));
}

/** All shards of a manifest, fields one after another. */
export function shardsOf(manifest: Manifest): readonly Shard[] {
  return manifest.kind === "tensors" ? manifest.fields.flatMap((field) => field.shards) : manifest.shards;
}

/** Every blob that must be there for the dataset to be whole. */
export function blobsOf(manifest: Manifest): readonly { readonly hash: Sha256; readonly bytes?: number }[] {
  const lists = Object.values(manifest.splits).flatMap((rule) =>
    rule.kind === "list" ? [{ hash: rule.hash, bytes: rule.count * 4 }] : [],
  );
  const tokenizer = manifest.kind === "tokens" && manifest.tokenizer ? [{ hash: manifest.tokenizer }] : [];
  return [...shardsOf(manifest), ...lists, ...tokenizer];
}

export function datasetBytes(manifest: Manifest): number {
  return shardsOf(manifest).reduce((sum, shard) => sum + shard.bytes, 0);
}

export function fieldOf(manifest: TensorsManifest, name: string): Field {
  const field = manifest.fields.find((one) => one.name === name);
  if (!field)
    fail(
      "not_found",
      `the dataset has no field "${name}", it has ${manifest.fields.map((one) => one.name).join(", ")}`,
    );
  return field;
}

/** Units that splits count: samples, tokens or documents. */
export function unitsOf(manifest: Manifest): number {
  switch (manifest.kind) {
    case "tensors":
      return manifest.samples;
    case "tokens":
      return manifest.tokens;
    case "text":
      return manifest.documents;
  }
}

/** Reads a manifest from anywhere; the error names what is wrong with it. */
export function parseManifest(text: string): Manifest {
  if (text.length > manifestBytesMax)
    fail("resource_exhausted", `the manifest has ${text.length} characters, at most ${manifestBytesMax} are allowed`);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (thrown) {
    fail("invalid_argument", `the manifest is not JSON: ${(thrown as Error).message}`, thrown);
  }
  return readManifest(record(value, "the manifest"));
}

function readManifest(json: Json): Manifest {
  if (json["version"] !== 1)
    fail(
      "invalid_argument",
      `the manifest has version ${JSON.stringify(json["version"])}, this program reads version 1`,
    );
  const kind = json["kind"];
  switch (kind) {
    case "tensors":
      return readTensors(json);
    case "tokens":
      return readTokens(json);
    case "text":
      return readText(json);
    default:
      fail("invalid_argument", `the manifest's kind is ${JSON.stringify(kind)}, expected tensors, tokens or text`);
  }
}

function readTensors(json: Json): TensorsManifest {
  onlyKeys(json, ["version", "kind", "samples", "fields", "chunk", "splits", "origin"], "the manifest");
  const samples = integer(json["samples"], "samples", 1, samplesMax);
  const fields = list(json["fields"], "fields", fieldsMax).map((field, i) => readField(field, `fields[${i}]`, samples));
  if (fields.length === 0) fail("invalid_argument", "the manifest has no fields, expected at least inputs");
  if (new Set(fields.map((field) => field.name)).size !== fields.length)
    fail("invalid_argument", "the manifest names a field twice");
  const chunk = integer(json["chunk"], "chunk", 1, samplesMax);
  return { version: 1, kind: "tensors", samples, fields, chunk, ...readCommon(json, samples) };
}

function readTokens(json: Json): TokensManifest {
  onlyKeys(
    json,
    ["version", "kind", "tokens", "tokenType", "vocabulary", "tokenizer", "shards", "splits", "origin"],
    "the manifest",
  );
  const tokens = integer(json["tokens"], "tokens", 2, Number.MAX_SAFE_INTEGER);
  const tokenType = json["tokenType"];
  if (tokenType !== "uint16" && tokenType !== "int32")
    fail("invalid_argument", `tokenType is ${JSON.stringify(tokenType)}, expected uint16 or int32`);
  const vocabulary = integer(json["vocabulary"], "vocabulary", 1, tokenType === "uint16" ? 65_536 : 2 ** 31 - 1);
  const shards = readShards(json["shards"], "shards", tokens, tokenBytes(tokenType));
  const tokenizer = json["tokenizer"] === undefined ? undefined : hash(json["tokenizer"], "tokenizer");
  const base = { version: 1, kind: "tokens", tokens, tokenType, vocabulary, shards } as const;
  return { ...base, ...(tokenizer ? { tokenizer } : {}), ...readCommon(json, tokens) };
}

function readText(json: Json): TextManifest {
  onlyKeys(json, ["version", "kind", "documents", "running", "shards", "splits", "origin"], "the manifest");
  const documents = integer(json["documents"], "documents", 1, samplesMax);
  const shards = readShards(json["shards"], "shards", documents);
  const running = json["running"];
  if (typeof running !== "boolean") fail("invalid_argument", "running must be true or false");
  return { version: 1, kind: "text", documents, running, shards, ...readCommon(json, documents) };
}

export function tokenBytes(type: TokenType): 2 | 4 {
  return type === "uint16" ? 2 : 4;
}

function readField(value: unknown, what: string, samples: number): Field {
  const json = record(value, what);
  onlyKeys(json, ["name", "dtype", "shape", "scale", "classes", "shards"], what);
  const name = parseId<string>(string(json["name"], `${what}.name`), `${what}.name`);
  const dtype = readDtype(json["dtype"], `${what}.dtype`);
  const shape = list(json["shape"], `${what}.shape`, rankMax).map((size) =>
    integer(size, `${what}.shape`, 1, sampleBytesMax),
  );
  if (elementCount(shape) > sampleBytesMax || tensorBytes(dtype, shape) > sampleBytesMax)
    fail("invalid_argument", `${what}: a sample of shape [${shape}] is larger than ${sampleBytesMax} bytes`);
  const scale = json["scale"];
  if (scale !== undefined && (typeof scale !== "number" || !Number.isFinite(scale) || scale === 0))
    fail("invalid_argument", `${what}.scale must be a number other than 0`);
  const classes = json["classes"] === undefined ? undefined : readClasses(json["classes"], dtype, `${what}.classes`);
  const shards = readShards(json["shards"], `${what}.shards`, samples, tensorBytes(dtype, shape));
  return { name, dtype, shape, ...(scale === undefined ? {} : { scale }), ...(classes ? { classes } : {}), shards };
}

const dtypes: readonly DType[] = ["float32", "float64", "int32", "int64", "uint8", "bool", "float16", "bfloat16"];

function readDtype(value: unknown, what: string): DType {
  const dtype = dtypes.find((one) => one === value);
  return dtype ?? fail("invalid_argument", `${what} is ${JSON.stringify(value)}, expected one of ${dtypes.join(", ")}`);
}

function readShards(value: unknown, what: string, units: number, unitBytes?: number): Shard[] {
  const shards = list(value, what, shardsMax).map((item, i) => readShard(item, `${what}[${i}]`, unitBytes));
  const sum = shards.reduce((total, shard) => total + shard.count, 0);
  if (sum !== units) fail("invalid_argument", `${what} hold ${sum} units, the manifest promises ${units}`);
  return shards;
}

function readShard(value: unknown, what: string, unitBytes?: number): Shard {
  const json = record(value, what);
  onlyKeys(json, ["hash", "bytes", "count"], what);
  const bytes = integer(json["bytes"], `${what}.bytes`, 1, shardBytesMax);
  const count = integer(json["count"], `${what}.count`, 0, shardBytesMax);
  if (unitBytes !== undefined && bytes !== count * unitBytes)
    fail("invalid_argument", `${what} has ${bytes} bytes, ${count} units need ${count * unitBytes}`);
  return { hash: hash(json["hash"], `${what}.hash`), bytes, count };
}

function readCommon(json: Json, units: number): { splits: Splits; origin?: Origin } {
  const entries = Object.entries(record(json["splits"], "splits"));
  if (entries.length > splitsMax)
    fail("invalid_argument", `the manifest has ${entries.length} splits, at most ${splitsMax} are allowed`);
  const splits = Object.fromEntries(entries.map(([name, rule]) => [splitName(name), readRule(rule, name, units)]));
  if (json["origin"] === undefined) return { splits };
  const origin = record(json["origin"], "origin");
  onlyKeys(origin, ["dataset", "operation"], "origin");
  const operation = string(origin["operation"], "origin.operation");
  if (operation.length > 1000) fail("invalid_argument", "origin.operation is longer than 1000 characters");
  return { splits, origin: { dataset: hash(origin["dataset"], "origin.dataset"), operation } };
}

/** "all" is every dataset's implied split. */
export function splitName(name: string): string {
  if (name === "all" || name === "__proto__") fail("invalid_argument", `a split may not be called "${name}"`);
  return parseId<string>(name, "the split's name");
}

function readRule(value: unknown, name: string, units: number): SplitRule {
  const json = record(value, `split ${name}`);
  const kind = json["kind"];
  switch (kind) {
    case "range": {
      onlyKeys(json, ["kind", "start", "end"], `split ${name}`);
      const start = integer(json["start"], `split ${name}.start`, 0, units);
      return { kind, start, end: integer(json["end"], `split ${name}.end`, start, units) };
    }
    case "ratio": {
      onlyKeys(json, ["kind", "seed", "from", "to"], `split ${name}`);
      const from = share(json["from"], `split ${name}.from`);
      const to = share(json["to"], `split ${name}.to`);
      if (from > to) fail("invalid_argument", `split ${name} goes from ${from} to ${to}, expected from <= to`);
      return { kind, seed: integer(json["seed"], `split ${name}.seed`, 0, Number.MAX_SAFE_INTEGER), from, to };
    }
    case "list":
      onlyKeys(json, ["kind", "hash", "count"], `split ${name}`);
      return {
        kind,
        hash: hash(json["hash"], `split ${name}.hash`),
        count: integer(json["count"], `split ${name}.count`, 0, units),
      };
    default:
      fail("invalid_argument", `split ${name} has kind ${JSON.stringify(kind)}, expected range, ratio or list`);
  }
}
