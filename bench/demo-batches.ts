// What the demo learns from, without a network: Moby Dick in tokens, in the order of a seed.

import { openBatches } from "../src/data/batches.ts";
import { buildMobyDickTokens } from "../src/data/imports/moby-dick.ts";
import type { Plan } from "../src/network/plan.ts";
import { openMemoryBlobs } from "../src/store/memory.ts";
import type { BatchSource } from "../src/vnode/feeds.ts";

/** Undefined for a network that does not read as many tokens as the demo's. */
export async function demoBatches(plan: Plan, batch: number, microbatches: number): Promise<BatchSource | undefined> {
  const { inputs } = plan;
  if (inputs?.wire !== "int32" || inputs.below === undefined || inputs.shape.length !== 1) return undefined;
  const blobs = openMemoryBlobs().datasets;
  const { manifest } = await buildMobyDickTokens(blobs, inputs.below);
  return openBatches({
    ...{ manifest, batch, microbatches, seed: 1, split: "train", validationSplit: "", cacheBytesMax: 1 << 26 },
    fetchBlob: (hash) => blobs.get(hash),
    context: inputs.shape[0] as number,
  });
}
