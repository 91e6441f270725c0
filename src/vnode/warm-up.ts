// Runs a graph once on feeds that are always the same: a device has compiled it then. What comes out shows how the device rounds in the
// very graphs of a session, which no small probe can.

import { sha256 } from "../core/hash.ts";
import { fillNormal, randomKey } from "../core/numbers/random.ts";
import { bytesOf, type Tensor } from "../core/tensor.ts";
import type { Executor } from "../engine/engine.ts";
import type { GraphModel } from "../graph/model.ts";

/** Small, so that nothing overflows however many layers follow each other. */
const deviation = 0.1;

/** The hash of all floats that the graph gives. `keep`: what a device keeps to itself when the graph runs in earnest. */
export async function warmUp(
  executor: Executor,
  name: string,
  graph: GraphModel,
  keep: readonly string[],
): Promise<string> {
  const feeds: Record<string, Tensor> = {};
  for (const { name: input, dtype, shape } of graph.inputs) {
    const tensor = executor.tensor(dtype, shape);
    tensor.data.fill(0 as never);
    if (dtype === "float32") fillNormal(tensor.data as Float32Array, randomKey("warm-up", input), deviation);
    feeds[input] = tensor;
  }
  const kept = keep.filter((output) => graph.outputs.some((one) => one.name === output));
  try {
    const results = await executor.run(name, feeds, { keep: kept });
    const floats = graph.outputs.filter(({ dtype }) => dtype === "float32").map((one) => results[one.name] as Tensor);
    await executor.download(floats);
    const hash = sha256(...floats.map(bytesOf));
    executor.recycle(Object.values(results));
    return hash;
  } finally {
    executor.recycle(Object.values(feeds));
  }
}
