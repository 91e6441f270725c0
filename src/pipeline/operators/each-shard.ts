// Steps that make each shard of their input into one or more of their output, whatever the other shards hold.

import type { Shard } from "../../data/manifest.ts";
import type { Kit } from "../kit.ts";
import type { Output, Part } from "../records.ts";

interface Place {
  readonly part: number;
  readonly shard: Shard;
  /** Records before it, over all parts. */
  readonly first: number;
}

export function placesOf({ parts }: Pick<Output, "parts">): readonly Place[] {
  const places: Place[] = [];
  let first = 0;
  parts.forEach((part, index) => {
    for (const shard of part.shards) {
      places.push({ part: index, shard, first });
      first += shard.count;
    }
  });
  return places;
}

/** Tasks are shards, in order; `make` gets the number of records before the shard. The parts stay as they are. */
export async function eachShard(
  input: Output,
  kit: Kit,
  make: (shard: Shard, first: number) => Promise<Shard[]>,
  stage = "shards",
): Promise<Output> {
  const places = placesOf(input);
  const made = await kit.each(
    stage,
    places.length,
    (task) => {
      const { shard, first } = places[task] as Place;
      return make(shard, first);
    },
    { bytesOf: (task) => places[task]?.shard.bytes ?? 0 },
  );
  return { ...input, parts: partsOf(input.parts, places, made) };
}

export function partsOf(parts: readonly Part[], places: readonly Place[], made: readonly Shard[][]): Part[] {
  return parts.map(({ name }, index) => ({
    name,
    shards: places.flatMap(({ part }, task) => (part === index ? (made[task] ?? []) : [])),
  }));
}
