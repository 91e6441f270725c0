// Which samples a step uses: pure functions of seed, manifest and step, so that every VNode that needs the
// inputs or the labels of a step derives the same ones alone, and none is used twice in an epoch.

import { assert } from "../core/assert.ts";
import { fail } from "../core/errors.ts";
import { permutationAt, randomKey } from "../core/numbers/random.ts";
import { type Manifest, type SplitRule, splitRunSamples, unitsOf } from "./manifest.ts";

/** Shuffling spreads samples over this many chunks at a time: what an epoch keeps in memory at once. */
const chunksPerGroup = 16;
/** The unit of locality in a token stream: shards hold a few of them. */
const chunkTokens = 1 << 20;

export interface SplitRequest {
  readonly manifest: Manifest;
  /** A split of the manifest, or "all". */
  readonly split: string;
  /** Tokens of one sample; needed for token streams, ignored otherwise. */
  readonly context?: number;
  /** The content of the split's blob, for splits that are lists (`splitList`). */
  readonly members?: Uint32Array;
}

/** A split as a sequence of sample indices. */
export interface SplitView {
  readonly samples: number;
  /** Neighbours that shuffling keeps together. */
  readonly chunk: number;
  /** The sample at place `place` of the split, places counting from 0. */
  at(place: number): number;
}

export interface StepRequest extends SplitRequest {
  readonly seed: number;
  readonly step: number;
  readonly batch: number;
}

/** The samples of a training step. Each epoch has its own order; a step may span two epochs. */
export function sampleIndices(request: StepRequest): number[] {
  return trainingSamples(viewSplit(request), request);
}

export function trainingSamples(
  view: SplitView,
  { seed, step, batch }: { readonly seed: number; readonly step: number; readonly batch: number },
): number[] {
  const indices: number[] = [];
  for (let i = 0; i < batch; i++) {
    const drawn = step * batch + i;
    const epoch = Math.floor(drawn / view.samples);
    indices.push(view.at(shuffledPlace(view, seed, epoch, drawn % view.samples)));
  }
  return indices;
}

/** The samples of a validation batch: the same ones in the same order each time, from the split's start again at its end. */
export function validationSamples(view: SplitView, first: number, count: number): number[] {
  return Array.from({ length: count }, (_, i) => view.at((first + i) % view.samples));
}

/**
 * Where the epoch's draw `place` lies in the split. Whole chunks are shuffled among each other, then samples
 * within groups of chunks. A small dataset is one group: a plain shuffle.
 */
function shuffledPlace(view: SplitView, seed: number, epoch: number, place: number): number {
  const { samples, chunk } = view;
  const groupSamples = chunk * chunksPerGroup;
  const group = Math.floor(place / groupSamples);
  const groupStart = group * groupSamples;
  const size = Math.min(groupSamples, samples - groupStart);
  const within = groupStart + permutationAt(randomKey("samples", seed, epoch, group), place - groupStart, size);
  const wholeChunks = Math.floor(samples / chunk);
  const chunkIndex = Math.floor(within / chunk);
  // The last chunk may be a short one; it keeps its place, so that the others can change theirs.
  if (chunkIndex >= wholeChunks) return within;
  return permutationAt(randomKey("chunks", seed, epoch), chunkIndex, wholeChunks) * chunk + (within % chunk);
}

export function viewSplit({ manifest, split, context, members }: SplitRequest): SplitView {
  const rule = ruleOf(manifest, split);
  const view =
    manifest.kind === "tokens" ? viewTokens(manifest.tokens, rule, context) : viewRule(manifest, rule, members);
  if (view.samples === 0)
    fail("failed_precondition", `the split "${split}" has no samples: choose another split or more data`);
  return view;
}

export function ruleOf(manifest: Manifest, split: string): SplitRule {
  if (split === "all") return { kind: "range", start: 0, end: unitsOf(manifest) };
  const rule = Object.hasOwn(manifest.splits, split) ? manifest.splits[split] : undefined;
  if (rule) return rule;
  const known = ["all", ...Object.keys(manifest.splits)].join(", ");
  fail("not_found", `the dataset has no split "${split}", it has ${known}`);
}

function viewRule(manifest: Manifest, rule: SplitRule, members: Uint32Array | undefined): SplitView {
  const chunk = manifest.kind === "tensors" ? manifest.chunk : splitRunSamples;
  switch (rule.kind) {
    case "range":
      return { samples: rule.end - rule.start, chunk, at: (place) => rule.start + place };
    case "ratio":
      return viewRatio(unitsOf(manifest), rule, chunk);
    case "list":
      assert(members?.length === rule.count, "a split that is a list is opened with its members");
      return { samples: rule.count, chunk, at: (place) => members[place] as number };
  }
}

function viewTokens(tokens: number, rule: SplitRule, context: number | undefined): SplitView {
  if (context === undefined || !Number.isSafeInteger(context) || context < 1)
    fail("invalid_argument", "a token stream needs the context length: the network's input shape gives it");
  const chunk = Math.max(1, Math.floor(chunkTokens / context));
  switch (rule.kind) {
    case "range": {
      const first = Math.ceil(rule.start / context);
      // The last label is one token further on, and must lie in the split as well.
      const samples = Math.max(0, Math.floor((rule.end - 1) / context) - first);
      return { samples, chunk, at: (place) => first + place };
    }
    case "ratio":
      return viewRatio(Math.floor((tokens - 1) / context), rule, chunk);
    case "list":
      fail("failed_precondition", "a token stream is split by ranges or by ratio, not by a list");
  }
}

/** In each run of samples the seeded order puts shares [from, to) into the split. */
function viewRatio(units: number, rule: SplitRule & { kind: "ratio" }, chunk: number): SplitView {
  const lastRun = Math.floor(units / splitRunSamples);
  const lowOf = (size: number) => Math.round(rule.from * size);
  const takenOf = (size: number) => Math.round(rule.to * size) - lowOf(size);
  const perRun = takenOf(splitRunSamples);
  const at = (place: number) => {
    const run = perRun === 0 ? lastRun : Math.min(lastRun, Math.floor(place / perRun));
    const size = run < lastRun ? splitRunSamples : units - lastRun * splitRunSamples;
    const drawn = lowOf(size) + (place - run * perRun);
    return run * splitRunSamples + permutationAt(randomKey("split", rule.seed, run), drawn, size);
  };
  return { samples: lastRun * perRun + takenOf(units - lastRun * splitRunSamples), chunk, at };
}

/** Checks and reads the blob of a split that is a list. */
export function splitList(content: Uint8Array, rule: SplitRule & { kind: "list" }, units: number): Uint32Array {
  if (content.byteLength !== rule.count * 4)
    fail("data_loss", `the split's list has ${content.byteLength} bytes, ${rule.count} indices need ${rule.count * 4}`);
  const members = new Uint32Array(content.slice().buffer);
  for (let i = 0; i < members.length; i++) {
    if ((members[i] as number) >= units || (i > 0 && (members[i] as number) <= (members[i - 1] as number)))
      fail("data_loss", `the split's list is not ascending or names a sample beyond ${units}`);
  }
  return members;
}
