// One import while it runs: what was asked for, where the source stands, and how to go on from there.

import { fail } from "../../core/errors.ts";
import type { DType, Shape } from "../../core/tensor.ts";
import type { BlobSink, BuildCheckpoint, FieldSpec } from "../build.ts";
import type { Position } from "../formats/lines.ts";
import type { NumberType } from "../formats/rows.ts";
import type { Source } from "./source.ts";

export const formats = ["text", "jsonl", "csv", "parquet", "npy", "raw", "tokens", "images"] as const;

export type Format = (typeof formats)[number];

export interface ImportRequest {
  /** A path, `file:`, `https:`, `s3:`, or `-`. */
  readonly source: string;
  /** By the name's ending if it is not given. */
  readonly format?: Format;
  /** npy and raw: the source of the labels. csv, parquet: the label's column (name or number from 0, "none"). */
  readonly labels?: string;
  readonly inputsType?: NumberType;
  readonly labelsType?: NumberType;
  /** parquet: names of the columns that are the inputs; all others but the label by default. */
  readonly columns?: readonly string[];
  /** raw: of one sample. images: colours, height and width that all are scaled to. */
  readonly dtype?: DType;
  readonly shape?: Shape;
  readonly labelsDtype?: DType;
  readonly labelsShape?: Shape;
  /** Batches give inputs multiplied by it. */
  readonly scale?: number;
  /** tokens: how many there are in the vocabulary; dtype is uint8 for one byte each, int32, or two bytes if absent. */
  readonly vocabulary?: number;
  /** jsonl, parquet: the field that holds a document. */
  readonly textField?: string;
}

export interface ImportProgress {
  readonly bytes: number;
  /** Undefined if the source does not say. */
  readonly bytesTotal: number | undefined;
  /** Samples, tokens or documents so far. */
  readonly units: number;
}

/** JSON as it stands; valid for the same request and the same content of the source (`tag`). */
export interface ImportCheckpoint {
  readonly tag: string;
  readonly position: Position;
  readonly build: BuildCheckpoint;
  readonly fields?: readonly FieldSpec[];
}

export interface ImportOptions {
  readonly blobs: BlobSink;
  readonly shardBytes?: number;
  readonly onProgress?: (progress: ImportProgress) => void;
  readonly resume?: ImportCheckpoint;
  readonly onCheckpoint?: (checkpoint: ImportCheckpoint) => void;
}

export interface Run {
  readonly request: ImportRequest;
  readonly source: Source;
  readonly options: ImportOptions;
  readonly positions: Positions;
}

export interface Positions {
  /** Where the import begins. */
  readonly start: Position;
  /** Called before the unit is added: behind `units` units the source stands at `position`. */
  mark(units: number, position: Position): void;
  /** For values at fixed places, where nothing need be remembered. */
  report(units: number, offset: number): void;
  /** For the builder. */
  checkpoint(fields?: readonly FieldSpec[], offsetOf?: (units: number) => number): (build: BuildCheckpoint) => void;
}

export function openPositions(source: Source, { resume, onCheckpoint, onProgress }: ImportOptions): Positions {
  const positions = new Map<number, Position>();
  let reported = 0;
  const report = (units: number, offset: number) => {
    // Four reports a megabyte are plenty for a progress bar.
    if (offset - reported < 1 << 18 && offset !== source.bytes) return;
    reported = offset;
    onProgress?.({ bytes: offset, bytesTotal: source.bytes, units });
  };
  return {
    start: resume?.position ?? { offset: 0, line: 0 },
    report,
    mark(units, position) {
      if (onCheckpoint) positions.set(units, position);
      report(units, position.offset);
    },
    checkpoint: (fields, offsetOf) => (build) => {
      const position = offsetOf ? { offset: offsetOf(build.units), line: 0 } : positions.get(build.units);
      for (const units of positions.keys()) if (units <= build.units) positions.delete(units);
      if (position) onCheckpoint?.({ tag: source.tag, position, build, ...(fields ? { fields } : {}) });
    },
  };
}

export function buildOptions(
  { options, positions }: Run,
  fields?: readonly FieldSpec[],
  offsetOf?: (units: number) => number,
) {
  const { blobs, shardBytes, resume } = options;
  return { blobs, shardBytes, resume: resume?.build, onCheckpoint: positions.checkpoint(fields, offsetOf) };
}

export function notEmpty(units: number, source: Source): true {
  return units > 0 || fail("invalid_argument", `${source.name} is empty: there is nothing to import`);
}
