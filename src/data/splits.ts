// Splits a dataset into training and validation parts: a new manifest over the same shards.

import { createHash } from "node:crypto";
import { fail } from "../core/errors.ts";
import { sha256 } from "../core/hash.ts";
import { tensorBytes } from "../core/tensor.ts";
import type { BlobSink } from "./build.ts";
import { readDocuments } from "./documents.ts";
import {
  type Manifest,
  manifestText,
  parseManifest,
  type SplitRule,
  splitName,
  type TensorsManifest,
  unitsOf,
} from "./manifest.ts";
import { type FetchBlob, fetchVerified } from "./shard-cache.ts";

export interface SplitRequest {
  /**
   * tail: the last ones validate. ratio: a seeded draw. hash: by each sample's content, so that equal samples fall
   * on the same side and a sample never changes sides when others are added.
   */
  readonly by: "tail" | "ratio" | "hash";
  /** Share of the samples that validate. */
  readonly share: number;
  readonly seed?: number;
  readonly trainName?: string;
  readonly validationName?: string;
}

export interface SplitAccess {
  readonly fetchBlob: FetchBlob;
  readonly blobs: BlobSink;
}

export async function splitDataset(manifest: Manifest, request: SplitRequest, access: SplitAccess): Promise<Manifest> {
  const { share, trainName = "train", validationName = "validation" } = request;
  if (!(share > 0 && share < 1))
    fail("invalid_argument", `a validation share of ${share} is impossible: between 0 and 1`);
  if (splitName(trainName) === splitName(validationName))
    fail("invalid_argument", `both parts are called "${trainName}": give them two names`);
  const [train, validation] = await rulesOf(manifest, request, access);
  const changed = { ...manifest, splits: { ...manifest.splits, [trainName]: train, [validationName]: validation } };
  return parseManifest(manifestText(changed));
}

async function rulesOf(
  manifest: Manifest,
  request: SplitRequest,
  access: SplitAccess,
): Promise<[SplitRule, SplitRule]> {
  const { by, share, seed = 0 } = request;
  const units = unitsOf(manifest);
  switch (by) {
    case "tail": {
      const cut = units - Math.round(units * share);
      if (cut === 0 || cut === units)
        fail("failed_precondition", `a share of ${share} leaves one part of ${units} samples empty: choose another`);
      return [
        { kind: "range", start: 0, end: cut },
        { kind: "range", start: cut, end: units },
      ];
    }
    case "ratio":
      return [
        { kind: "ratio", seed, from: 0, to: 1 - share },
        { kind: "ratio", seed, from: 1 - share, to: 1 },
      ];
    case "hash":
      return splitByHash(manifest, share, access);
  }
}

async function splitByHash(manifest: Manifest, share: number, access: SplitAccess): Promise<[SplitRule, SplitRule]> {
  const sides: [number[], number[]] = [[], []];
  let index = 0;
  for await (const digest of contentHashes(manifest, access.fetchBlob)) {
    const draw = digest.readUInt32BE(0) / 2 ** 32;
    sides[draw < share ? 1 : 0].push(index++);
  }
  if (sides[0].length === 0 || sides[1].length === 0)
    fail("failed_precondition", `a share of ${share} leaves one part of ${index} samples empty: choose another`);
  const [train, validation] = await Promise.all(sides.map((members) => storeList(members, access.blobs)));
  return [train as SplitRule, validation as SplitRule];
}

async function storeList(members: readonly number[], blobs: BlobSink): Promise<SplitRule> {
  const content = new Uint8Array(Uint32Array.from(members).buffer);
  const hash = sha256(content);
  if ((await blobs.size(hash)) === undefined) await blobs.put(hash, content, content.byteLength);
  return { kind: "list", hash, count: members.length };
}

async function* contentHashes(manifest: Manifest, fetchBlob: FetchBlob): AsyncGenerator<Buffer> {
  switch (manifest.kind) {
    case "text":
      for await (const { bytes } of readDocuments(manifest, fetchBlob)) yield digestOf(bytes);
      return;
    case "tensors":
      yield* firstFieldHashes(manifest, fetchBlob);
      return;
    case "tokens":
      fail(
        "failed_precondition",
        "a token stream has no samples of its own: split its text by hash, or it by tail or ratio",
      );
  }
}

/** A sample is known by its first field: equal inputs belong together, whatever their labels. */
async function* firstFieldHashes(manifest: TensorsManifest, fetchBlob: FetchBlob): AsyncGenerator<Buffer> {
  const field = manifest.fields[0];
  if (!field) return;
  const sampleBytes = tensorBytes(field.dtype, field.shape);
  for (const shard of field.shards) {
    const content = await fetchVerified(fetchBlob, shard.hash, shard.bytes);
    for (let at = 0; at < content.byteLength; at += sampleBytes) yield digestOf(content.subarray(at, at + sampleBytes));
  }
}

function digestOf(bytes: Uint8Array): Buffer {
  return createHash("sha256").update(bytes).digest();
}
