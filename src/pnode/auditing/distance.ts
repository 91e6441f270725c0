// How far a state is from another, as a share of what the interval changed: rounding differs by a little, a lie does not have
// to. Weights alone count, tensor by tensor, so that no state is in memory twice.

import type { StateImage } from "../../states/cut.ts";
import type { StateReader } from "../../states/reader.ts";

/** The weights of a state, as they are now. */
export function weightsOf({ tensors }: StateImage): Map<string, Float32Array> {
  const weights = new Map<string, Float32Array>();
  for (const [name, { data }] of tensors)
    if (!name.startsWith("optimizer.")) weights.set(name, Float32Array.from(data as Float32Array));
  return weights;
}

/** Negative if nothing can be said: the VNode has no weights, or none of them moved. */
export async function distanceOf(
  after: StateImage,
  before: ReadonlyMap<string, Float32Array>,
  against: StateReader,
): Promise<number> {
  let apart = 0;
  let moved = 0;
  for (const [name, { shape, data }] of after.tensors) {
    if (name.startsWith("optimizer.") || data.length === 0) continue;
    const weights = data as Float32Array;
    const other = (await against.read([{ name, shape }])).get(name)?.data as Float32Array;
    const start = before.get(name);
    for (let i = 0; i < weights.length; i++) {
      const now = weights[i] as number;
      apart += ((other[i] as number) - now) ** 2;
      moved += (now - (start?.[i] ?? 0)) ** 2;
    }
  }
  return moved > 0 ? Math.sqrt(apart / moved) : -1;
}
