// The name spaces that blobs live in, and how large anything in them may be: the one place with such limits. Whoever
// deletes or grants works within one space, so that a state's name can never stand for somebody's dataset.

import type { ErrorCode } from "./errors.ts";

export const blobSpaceNames = ["states", "datasets", "vocabularies", "definitions"] as const;

export type BlobSpaceName = (typeof blobSpaceNames)[number];

/**
 * States travel in parts of this size: at 143 KB/s one takes two minutes, which is what a broken connection may cost.
 * It decides the parts' hashes and so the state's name: all PNodes of a network cut alike.
 */
export const statePartBytes = 16 * 2 ** 20;

/** One VNode's weights and moments; more than 4,096 parts would not fit any machine we know of. */
export const stateBytesMax = 4096 * statePartBytes;

/** Of the text that lists a state's parts: whoever loads the state reads it whole. */
export const stateManifestBytesMax = 16 * 2 ** 20;

/**
 * A message that an audit needs, or the list of an interval's messages, is one blob, which is held whole by whoever stores or reads it. At 143 KB/s one takes
 * eight minutes: that is how long its sender may take to store it (orchestrator/trust/silence.ts), and an address for it lasts longer.
 */
export const auditBlobBytesMax = 64 * 2 ** 20;

/** By name space, of one blob. Those of states are parts, manifests and what audits need; the others are read whole into memory. */
export const blobBytesMax: Readonly<Record<BlobSpaceName, number>> = {
  states: Math.max(statePartBytes, stateManifestBytesMax, auditBlobBytesMax),
  datasets: 2 ** 31,
  vocabularies: 2 ** 28,
  definitions: 2 ** 26,
};

/**
 * What a store's refusal means for whoever moves a blob. An address that is no longer good passes: the next attempt asks
 * for a new one. `whenMissing`: "not_found" for whoever reads.
 */
export function codeOfBlobRefusal(status: number, whenMissing: "not_found" | "unavailable"): ErrorCode {
  if (status === 404) return whenMissing;
  if (status === 507) return "resource_exhausted";
  return status === 422 ? "data_loss" : "unavailable";
}

export function isBlobSpace(text: string): text is BlobSpaceName {
  return (blobSpaceNames as readonly string[]).includes(text);
}

export interface BlobAllowance {
  /** Of grants to PNodes, for uploads and downloads. */
  readonly grantLifetimeMs: number;
  /** What a PNode may upload without recording it, in times of what its VNodes need in memory. */
  readonly unrecordedTimes: number;
  /** And at least so much. */
  readonly unrecordedBytesLeast: number;
  /** An upload counts at least this, so that the number of uploads is bounded too. */
  readonly countedBytesLeast: number;
}

export const blobAllowanceDefault: BlobAllowance = {
  // A part at 143 KB/s takes two minutes.
  grantLifetimeMs: 15 * 60_000,
  // A state is smaller than the memory of its VNode: four states lost on the way within a day are borne.
  unrecordedTimes: 4,
  unrecordedBytesLeast: 2 ** 30,
  countedBytesLeast: 2 ** 16,
};
