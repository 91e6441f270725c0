// Trains a network for some steps with exact numerics and hashes every state: one hash on every processor, browser and GPU.

import { sha256 } from "../../src/core/hash.ts";
import type { Engine } from "../../src/engine/engine.ts";
import { openInlineExecutor } from "../../src/engine/executor.ts";
import { learning, train } from "../../src/vnode/training-run.testing.ts";

export interface HowMuch {
  readonly steps?: number;
  /** Of four samples each. */
  readonly microbatches?: number;
}

export async function rootOfExactTraining(
  text: string,
  engine: Engine,
  { steps = 1, microbatches = 2 }: HowMuch = {},
): Promise<string> {
  const executor = openInlineExecutor(engine);
  const schedule = { steps, microbatches, validateEvery: 0, validationMicrobatches: 1, checkpointEvery: steps };
  const gentle = { ...learning, learningRate: { ...learning.learningRate, base: 0.001 } };
  try {
    const { hashes } = await train(text, 1, executor, { schedule, learning: gentle });
    return sha256([...hashes].sort().join());
  } finally {
    await executor.close();
  }
}
