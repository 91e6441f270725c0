// Executors that compute something else than what they say.

import type { Tensor } from "../../src/core/tensor.ts";
import type { Executor } from "../../src/engine/engine.ts";

/** The first float of every result is one unit in the last place further from zero. */
export function roundingAway(inner: Executor): Executor {
  return {
    ...inner,
    run: async (name, feeds, options) => {
      const results = await inner.run(name, feeds, options);
      for (const tensor of Object.values(results)) nudge(tensor);
      return results;
    },
  };
}

function nudge({ data }: Tensor): void {
  if (!(data instanceof Float32Array) || data.length === 0 || data[0] === 0) return;
  const words = new Uint32Array(data.buffer, data.byteOffset, 1);
  words[0] = (words[0] as number) + 1;
}
