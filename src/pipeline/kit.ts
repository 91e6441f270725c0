// What a step has to work with: blobs, a place for what does not fit into memory, tasks that are recorded once each, and
// threads. Whoever runs a pipeline gives it; steps know nothing of folders, clocks or networks.

import type { Lane, Work } from "../core/aside.ts";
import { freeBytes } from "../core/bytes.ts";
import type { Sha256 } from "../core/ids.ts";
import type { Shard } from "../data/manifest.ts";

/** Of all works of pipelines; there are as many such threads as steps may use. */
export const pipelineLane: Lane = { name: "pipeline", memoryMib: 384, idleMs: 5_000, freesBytes: true };

export interface StoredBlob {
  readonly hash: Sha256;
  readonly bytes: number;
}

export interface NamedBlob {
  readonly hash: Sha256;
  readonly bytes?: number;
}

export interface Blobs {
  /** The bytes, verified. */
  get(hash: Sha256): Promise<Uint8Array>;
  /** Storing twice is fine. */
  put(content: Uint8Array): Promise<StoredBlob>;
  /** Of that size, where one is said. */
  has(blob: NamedBlob): Promise<boolean>;
}

/** Gone when its step is done. */
export interface Spill {
  put(content: Uint8Array): Promise<StoredBlob>;
  get(hash: Sha256): Promise<Uint8Array>;
  /** Some bytes of it, not verified: whole ones are when they are first used. */
  range(hash: Sha256, start: number, bytes: number): Uint8Array;
}

export interface EachOptions {
  /** How many at once; as many as there are threads if it is not said. */
  readonly atOnce?: number;
  /** How much of the work a task is, in bytes that it reads: for progress. */
  readonly bytesOf?: (task: number) => number;
}

/** The newest word of a task that takes long, for whoever begins it again. */
export interface Note<Word> {
  readonly last: Word | undefined;
  /** Not every word is kept: one a second is enough. */
  write(word: Word): void;
}

/** Results are plain JSON: they are written down, and read again by whoever goes on after a kill. */
export interface Tasks {
  /** Tasks 0 to count - 1, none of which needs another; those that were recorded are not run again. */
  each<Result>(
    stage: string,
    count: number,
    task: (task: number) => Promise<Result>,
    options?: EachOptions,
  ): Promise<Result[]>;
  /**
   * Tasks one after another. `follow` is given all results so far and yields further ones until there is nothing more; a result
   * must say where the next one begins.
   */
  chain<Result>(
    stage: string,
    follow: (recorded: readonly Result[]) => AsyncIterable<{ readonly result: Result; readonly bytes: number }>,
    bytesTotal?: number,
  ): Promise<Result[]>;
}

export interface Kit extends Tasks {
  /** What a task should make in one go. It decides where shards are cut, so it is part of each step's key. */
  readonly pieceBytes: number;
  readonly blobs: Blobs;
  readonly spill: Spill;
  note<Word>(name: string): Note<Word>;
  /** Runs a pure function in one of the threads, with its deadline. The bytes among its input are given away. */
  aside<Input, Piece>(work: Work<Input, Piece>, input: Input): Promise<Piece>;
}

/** Stores a shard unless there is nothing in it; its memory is given back. */
export async function putShard(blobs: Blobs, content: Uint8Array, count: number): Promise<Shard[]> {
  if (count === 0) return [];
  const { hash, bytes } = await blobs.put(content);
  freeBytes(content);
  return [{ hash, bytes, count }];
}
