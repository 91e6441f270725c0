// How fast a device multiplies what lies in its memory already. A machine names the class of its GPU first only where that is faster
// than its processor: drivers in software are not, whatever they are called.

import type { Tensor } from "../../core/tensor.ts";
import { GraphBuilder } from "../../graph/builder.ts";
import type { Executor } from "../engine.ts";

/** Small products tell how fast one asks, large ones how fast a GPU is: they grow until they take a while. */
const sizes = [128, 256, 512, 1024, 2048];
const longMs = 100;
const tries = 4;

/** Billions of operations in a second, at the size that suits it best. */
export async function deviceGflops(executor: Executor, nowMs: () => number): Promise<number> {
  let best = 0;
  for (const size of sizes) {
    const takenMs = await productMs(executor, size, nowMs);
    best = Math.max(best, (2 * size ** 3) / Math.max(takenMs, 0.001) / 1e6);
    if (takenMs * tries > longMs) break;
  }
  return best;
}

/** Of one product, on the average of some; the first, which compiles, is not counted. */
async function productMs(executor: Executor, size: number, nowMs: () => number): Promise<number> {
  const shape = [size, size];
  const name = `product of ${size}`;
  const builder = new GraphBuilder(name);
  const [a, b] = [builder.input("a", "float32", shape), builder.input("b", "float32", shape)];
  builder.output(builder.op("MatMul", [a, b]), "c");
  executor.register(name, builder.build());
  const block = executor.allocate(4 * size * size);
  const feed: Tensor = { dtype: "float32", shape, data: new Float32Array(block.buffer, block.offset, size * size) };
  const run = async () => (await executor.run(name, { a: feed, b: feed }, { keep: ["c"] }))["c"] as Tensor;
  const finished = async (results: readonly Tensor[]) => {
    await executor.download(results.slice(-1));
    executor.recycle(results);
  };
  try {
    await finished([await run()]);
    const startMs = nowMs();
    const results: Tensor[] = [];
    for (let i = 0; i < tries; i++) results.push(await run());
    await finished(results);
    return (nowMs() - startMs) / tries;
  } finally {
    executor.unregister(name);
    executor.free(block);
  }
}

/**
 * A machine's classes, the one in which it is fastest first: where classes are mixed it is a lane of that one. `gpuGflops` is the speed in
 * the first of `onGpus`, `gflops` that of the processor, each of all that is lent.
 */
export function fastestFirst<T>(own: readonly T[], onGpus: readonly T[], gpuGflops: number, gflops: number): T[] {
  const [first, ...others] = onGpus;
  if (first === undefined) return [...own];
  return gpuGflops > gflops ? [first, ...own, ...others] : [...own, first, ...others];
}
