// A long training in one place takes no more memory than a short one: what nobody can ask for again is given back.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Executor } from "../../src/engine/engine.ts";
import { openInlineExecutor } from "../../src/engine/executor.ts";
import { openReferenceEngine } from "../../src/engine/reference.ts";
import { laned, type Scenario } from "../scenarios.ts";
import { trainInOnePlace } from "./train.ts";

/** How many pieces of pooled memory this training takes: one that is given back is taken again. */
async function piecesFor(scenario: Scenario): Promise<number> {
  const inner = openInlineExecutor(openReferenceEngine());
  const pieces = new Set<ArrayBufferLike>();
  const noting: Executor = {
    ...inner,
    tensor: (dtype, shape) => {
      const tensor = inner.tensor(dtype, shape);
      pieces.add(tensor.data.buffer);
      return tensor;
    },
  };
  try {
    await trainInOnePlace(scenario, noting);
  } finally {
    await inner.close();
  }
  return pieces.size;
}

test("a training in lanes that is three times as long takes no more memory for messages", async () => {
  const [scenario] = laned;
  assert.ok(scenario);
  const short = await piecesFor({ ...scenario, steps: 60 });
  const long = await piecesFor({ ...scenario, steps: 180 });
  assert.ok(long < 1.5 * short, `${long} pieces of memory for 180 steps, ${short} for 60`);
});
