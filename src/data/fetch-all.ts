// A dataset onto a disk, by several machines that may lose its source on the way: each begins with other blobs than the
// others, so that together they soon have all of it and can give each other the rest. One that cannot be had holds up no other.

import { sha256 } from "../core/hash.ts";
import type { Sha256 } from "../core/ids.ts";

export interface SizedBlob {
  readonly hash: Sha256;
  readonly bytes: number;
}

/** More would only share the same line with whatever a step needs now. */
const fetchesAtOnce = 3;

/** By rendezvous hashing: equally likely to be anywhere in anybody's order. */
export function orderFor<Blob extends Pick<SizedBlob, "hash">>(machine: string, blobs: readonly Blob[]): Blob[] {
  return blobs
    .map((blob) => ({ blob, weight: sha256(`${machine}\n${blob.hash}`) }))
    .sort((a, b) => (a.weight < b.weight ? -1 : 1))
    .map(({ blob }) => blob);
}

/** Fails when all were tried, with the first failure. */
export async function fetchAll(
  machine: string,
  blobs: readonly SizedBlob[],
  fetch: (blob: SizedBlob) => Promise<unknown>,
  signal: AbortSignal,
): Promise<void> {
  const left = orderFor(machine, blobs);
  const failures: unknown[] = [];
  const lane = async () => {
    for (let blob = left.shift(); blob !== undefined && !signal.aborted; blob = left.shift())
      await fetch(blob).catch((error: unknown) => failures.push(error));
  };
  await Promise.all(Array.from({ length: fetchesAtOnce }, lane));
  if (failures.length > 0) throw failures[0];
}
