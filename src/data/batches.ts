// Batches of a session as tensors, for the PNodes that host a VNode fed by the dataset. Only the shards
// that a step needs are fetched, and those of the next steps are on their way before they are asked for.

import { assert } from "../core/assert.ts";
import { fail } from "../core/errors.ts";
import { allocate, bytesOf, type Tensor, tensorBytes } from "../core/tensor.ts";
import { fieldOf, type Manifest, type Shard, type TokensManifest, tokenBytes, unitsOf } from "./manifest.ts";
import { ruleOf, type SplitView, splitList, trainingSamples, validationSamples, viewSplit } from "./order.ts";
import { type FetchBlob, fetchVerified, openShardCache, type ShardCache } from "./shard-cache.ts";
import { toModelTensor } from "./values.ts";

export { sampleIndices } from "./order.ts";

export type FieldName = "inputs" | "labels";

export interface BatchesOptions {
  readonly manifest: Manifest;
  readonly fetchBlob: FetchBlob;
  readonly cacheBytesMax: number;
  readonly seed: number;
  readonly split: string;
  /** Empty when the session never validates. */
  readonly validationSplit: string;
  /** Samples of a whole step. */
  readonly batch: number;
  readonly microbatches: number;
  /** Tokens of one sample: the network's input shape. Needed for token streams. */
  readonly context?: number;
  /** Steps whose shards are fetched ahead after each batch. */
  readonly prefetchSteps?: number;
}

export interface BatchRequest {
  readonly step: number;
  /** Counts from 0 in either mode. */
  readonly micro: number;
  readonly mode: "train" | "evaluate";
}

export interface Batches {
  /** Samples of one microbatch. */
  readonly microbatch: number;
  batch(request: BatchRequest): Promise<{ inputs: Tensor; labels: Tensor }>;
  /** One side only: whoever feeds inputs need not fetch labels. */
  field(name: FieldName, request: BatchRequest): Promise<Tensor>;
  /** Starts fetching what a training step needs (of the fields asked for so far). */
  prefetch(step: number): void;
  /** The samples behind a request, for audits. */
  indices(request: BatchRequest): Promise<number[]>;
  readonly cache: ShardCache;
}

/** More than the window of steps that VNodes work on at once. */
const stepsRemembered = 16;

export function openBatches(options: BatchesOptions): Batches {
  const { manifest, batch, microbatches, seed, prefetchSteps = 2 } = options;
  if (manifest.kind === "text") fail("failed_precondition", "a text dataset cannot feed a network: tokenise it first");
  if (!Number.isSafeInteger(batch) || batch < 1 || batch % microbatches !== 0)
    fail("invalid_argument", `a batch of ${batch} samples cannot be cut into ${microbatches} equal microbatches`);
  const microbatch = batch / microbatches;
  const cache = openShardCache(options);
  const views = new Map<string, Promise<SplitView>>();
  const fieldsUsed = new Set<FieldName>();

  function view(split: string): Promise<SplitView> {
    let opened = views.get(split);
    if (!opened) {
      opened = openView(options, split);
      // A failed fetch of a split's list may work the next time.
      opened.catch(() => views.delete(split));
      views.set(split, opened);
    }
    return opened;
  }

  /** The samples of the steps in use; each step is asked for by every microbatch and field. */
  const samplesOfStep = new Map<number, number[]>();

  async function stepSamples(step: number): Promise<number[]> {
    const opened = await view(options.split);
    let samples = samplesOfStep.get(step);
    if (!samples) {
      samples = trainingSamples(opened, { seed, step, batch });
      samplesOfStep.set(step, samples);
      for (const oldest of samplesOfStep.keys()) {
        if (samplesOfStep.size <= stepsRemembered) break;
        samplesOfStep.delete(oldest);
      }
    }
    return samples;
  }

  async function indices({ step, micro, mode }: BatchRequest): Promise<number[]> {
    if (mode === "evaluate")
      return validationSamples(await view(options.validationSplit), micro * microbatch, microbatch);
    assert(micro >= 0 && micro < microbatches, `microbatch ${micro} is one of ${microbatches}`);
    const samples = await stepSamples(step);
    return samples.slice(micro * microbatch, (micro + 1) * microbatch);
  }

  async function prefetchNow(step: number): Promise<void> {
    const samples = await stepSamples(step);
    for (const name of fieldsUsed)
      for (const shard of shardsNeeded(manifest, name, samples, options.context))
        cache.prefetch(shard.hash, shard.bytes);
  }

  const prefetch = (step: number) => void prefetchNow(step).catch(() => {});

  async function read(name: FieldName, request: BatchRequest): Promise<Tensor> {
    return readSamples(manifest, name, await indices(request), cache, options.context);
  }

  /** The microbatch that will be asked for next, put together while the one before it is computed. */
  const ahead = new Map<
    FieldName,
    { readonly step: number; readonly micro: number; readonly tensor: Promise<Tensor> }
  >();

  function prepareAfter(name: FieldName, { step, micro, mode }: BatchRequest): void {
    if (mode === "evaluate") return;
    const next = micro + 1 < microbatches ? { step, micro: micro + 1 } : { step: step + 1, micro: 0 };
    const tensor = read(name, { ...next, mode });
    // Perhaps nobody asks for it; whoever does tries again.
    tensor.catch(() => {});
    ahead.set(name, { ...next, tensor });
  }

  async function field(name: FieldName, request: BatchRequest): Promise<Tensor> {
    fieldsUsed.add(name);
    const prepared = ahead.get(name);
    const isNext = request.mode === "train" && prepared?.step === request.step && prepared.micro === request.micro;
    if (isNext) ahead.delete(name);
    const tensor = await (isNext ? prepared.tensor.catch(() => read(name, request)) : read(name, request));
    prepareAfter(name, request);
    if (request.mode === "train" && request.micro === microbatches - 1)
      for (let further = 1; further <= prefetchSteps; further++) prefetch(request.step + further);
    return tensor;
  }

  return {
    microbatch,
    cache,
    indices,
    prefetch,
    field,
    async batch(request) {
      const [inputs, labels] = await Promise.all([field("inputs", request), field("labels", request)]);
      return { inputs, labels };
    },
  };
}

async function openView(options: BatchesOptions, split: string): Promise<SplitView> {
  const { manifest, fetchBlob, context } = options;
  const rule = ruleOf(manifest, split);
  if (rule.kind !== "list") return viewSplit({ manifest, split, context });
  const content = await fetchVerified(fetchBlob, rule.hash, rule.count * 4);
  return viewSplit({ manifest, split, context, members: splitList(content, rule, unitsOf(manifest)) });
}

/** Samples of one field as one tensor, in the order asked for. Works for token streams as well. */
export async function readSamples(
  manifest: Manifest,
  name: string,
  samples: readonly number[],
  cache: ShardCache,
  context?: number,
): Promise<Tensor> {
  switch (manifest.kind) {
    case "tensors": {
      const field = fieldOf(manifest, name);
      const shape = [samples.length, ...field.shape];
      const stored = allocate(field.dtype, shape);
      const unitBytes = tensorBytes(field.dtype, field.shape);
      await copyRuns(
        samples.map((sample) => [sample, 1]),
        field.shards,
        unitBytes,
        bytesOf(stored),
        cache,
      );
      return toModelTensor(stored, field.scale);
    }
    case "tokens":
      assert(context !== undefined, "a token stream is read with a context length");
      return readTokens(manifest, name === "labels" ? 1 : 0, samples, cache, context);
    case "text":
      fail("failed_precondition", "a text dataset has no tensors: tokenise it first");
  }
}

async function readTokens(
  manifest: TokensManifest,
  shift: number,
  samples: readonly number[],
  cache: ShardCache,
  context: number,
): Promise<Tensor> {
  const width = tokenBytes(manifest.tokenType);
  const bytes = new Uint8Array(samples.length * context * width);
  const runs = samples.map((sample): Run => [sample * context + shift, context]);
  await copyRuns(runs, manifest.shards, width, bytes, cache);
  const shape = [samples.length, context];
  const stored = manifest.tokenType === "uint16" ? new Uint16Array(bytes.buffer) : new Int32Array(bytes.buffer);
  const data = stored instanceof Int32Array ? stored : Int32Array.from(stored);
  const beyond = data.findIndex((token) => token < 0 || token >= manifest.vocabulary);
  if (beyond >= 0)
    fail("data_loss", `token ${data[beyond]} is outside the dataset's vocabulary of ${manifest.vocabulary}`);
  return { dtype: "int32", shape, data };
}

/** Neighbouring units: the first one's index and how many. */
type Run = readonly [first: number, count: number];

interface Piece {
  readonly shard: Shard;
  /** In units from the shard's start. */
  readonly start: number;
  readonly count: number;
  /** In units from the start of the result. */
  readonly target: number;
}

/** Copies runs of units one after another into `into`, shard by shard, so that one shard at a time must be in memory. */
async function copyRuns(
  runs: readonly Run[],
  shards: readonly Shard[],
  unitBytes: number,
  into: Uint8Array,
  cache: ShardCache,
): Promise<void> {
  const pieces = Map.groupBy(cutRuns(runs, shards), (piece) => piece.shard.hash);
  await Promise.all(
    [...pieces.values()].map(async (ofShard) => {
      const { hash, bytes } = (ofShard[0] as Piece).shard;
      const content = await cache.get(hash, bytes);
      for (const { start, count, target } of ofShard)
        into.set(content.subarray(start * unitBytes, (start + count) * unitBytes), target * unitBytes);
    }),
  );
}

function cutRuns(runs: readonly Run[], shards: readonly Shard[]): Piece[] {
  const starts = shardStarts(shards);
  const pieces: Piece[] = [];
  let target = 0;
  for (const [first, count] of runs) {
    let unit = first;
    while (unit < first + count) {
      const index = shardAt(starts, unit);
      const shard = shards[index];
      assert(shard !== undefined, `unit ${unit} lies in a shard`);
      const start = unit - (starts[index] as number);
      const taken = Math.min(shard.count - start, first + count - unit);
      pieces.push({ shard, start, count: taken, target });
      target += taken;
      unit += taken;
    }
  }
  return pieces;
}

const startsOfShards = new WeakMap<readonly Shard[], Float64Array>();

/** Index of each shard's first unit, and the end of the last. */
function shardStarts(shards: readonly Shard[]): Float64Array {
  let starts = startsOfShards.get(shards);
  if (!starts) {
    starts = new Float64Array(shards.length + 1);
    for (let i = 0; i < shards.length; i++) starts[i + 1] = (starts[i] as number) + (shards[i] as Shard).count;
    startsOfShards.set(shards, starts);
  }
  return starts;
}

/** The last shard that starts at or before `unit`; empty shards are passed over. */
function shardAt(starts: Float64Array, unit: number): number {
  let low = 0;
  let high = starts.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if ((starts[middle] as number) <= unit) low = middle;
    else high = middle;
  }
  return low;
}

function shardsNeeded(manifest: Manifest, name: string, samples: readonly number[], context?: number): Shard[] {
  if (manifest.kind === "text") return [];
  const shards = manifest.kind === "tokens" ? manifest.shards : fieldOf(manifest, name).shards;
  const shift = name === "labels" ? 1 : 0;
  const runs = samples.map((sample): Run => {
    return manifest.kind === "tokens" ? [sample * (context ?? 1) + shift, context ?? 1] : [sample, 1];
  });
  return [...new Set(cutRuns(runs, shards).map((piece) => piece.shard))];
}
