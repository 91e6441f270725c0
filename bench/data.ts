// How long a step waits for its data when shards are cached: batches of tokens and of images, and the share of
// a step that takes `stepMs`.

import { createHash } from "node:crypto";
import type { Sha256 } from "../src/core/ids.ts";
import { type Batches, openBatches } from "../src/data/batches.ts";
import { buildTensors, buildTokens } from "../src/data/build.ts";
import type { Manifest } from "../src/data/manifest.ts";

export interface DataBenchResult {
  readonly tokenBatchMs: number;
  readonly imageBatchMs: number;
  /** Of the first batch, with nothing cached and blobs that take a millisecond. */
  readonly coldTokenBatchMs: number;
}

export async function runDataBench(steps = 50): Promise<DataBenchResult> {
  const blobs = slowBlobs();
  const tokens = buildTokens(10_000, { blobs });
  await tokens.add(Int32Array.from({ length: 8_000_000 }, (_, i) => (i * 7919) % 10_000));
  const images = buildTensors([{ name: "inputs", dtype: "float32", shape: [784] }], { blobs });
  const image = new Float32Array(784 * 1000);
  for (let i = 0; i < 10; i++) await images.add({ inputs: image.fill(i) });
  const settings = { cacheBytesMax: 256 << 20, seed: 1, split: "all", validationSplit: "", fetchBlob: blobs.get };
  const open = (manifest: Manifest, batch: number) =>
    openBatches({ ...settings, manifest, batch, microbatches: 1, context: 128 });
  const tokenBatches = open(await tokens.finish(), 64);
  const cold = performance.now();
  await tokenBatches.batch({ step: 0, micro: 0, mode: "train" });
  const coldTokenBatchMs = performance.now() - cold;
  return {
    coldTokenBatchMs,
    tokenBatchMs: await warmMs(tokenBatches, steps, async (batches, step) => {
      await batches.batch({ step, micro: 0, mode: "train" });
    }),
    imageBatchMs: await warmMs(open(await images.finish(), 128), steps, async (batches, step) => {
      await batches.field("inputs", { step, micro: 0, mode: "train" });
    }),
  };
}

async function warmMs(
  batches: Batches,
  steps: number,
  use: (batches: Batches, step: number) => Promise<void>,
): Promise<number> {
  for (let step = 0; step < 5; step++) await use(batches, step);
  const start = performance.now();
  for (let step = 5; step < 5 + steps; step++) await use(batches, step);
  return (performance.now() - start) / steps;
}

function slowBlobs() {
  const contents = new Map<Sha256, Uint8Array>();
  return {
    put: async (hash: Sha256, content: unknown) => {
      if (
        createHash("sha256")
          .update(content as Uint8Array)
          .digest("hex") !== hash
      )
        throw new Error("a shard has another hash");
      contents.set(hash, content as Uint8Array);
    },
    size: async (hash: Sha256) => contents.get(hash)?.byteLength,
    get: async (hash: Sha256) => {
      await new Promise((resolve) => setTimeout(resolve, 1));
      return contents.get(hash) as Uint8Array;
    },
  };
}

export async function dataReport(): Promise<string> {
  const result = await runDataBench();
  return [
    "| batch | ms |",
    "|---|---|",
    `| 64 x 128 tokens, inputs and labels, cached | ${result.tokenBatchMs.toFixed(2)} |`,
    `| 128 x 784 floats, cached | ${result.imageBatchMs.toFixed(2)} |`,
    `| 64 x 128 tokens, the first one, blobs 1 ms away | ${result.coldTokenBatchMs.toFixed(1)} |`,
  ].join("\n");
}
