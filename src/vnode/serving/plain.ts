// Explicit tensors through a network that generates: each sample is a request of its own that is over at once, so that it
// gets the same numbers as if it were read token by token.

import { fail } from "../../core/errors.ts";
import type { Tensor } from "../../core/tensor.ts";
import { logitsOutput } from "../../graph/unit.ts";
import { generationHead } from "../../network/graphs/generation.ts";
import type { Plan } from "../../network/plan.ts";
import type { ChainRow } from "./chain.ts";

/** Logits of all positions are kept at once. */
export const positionsMax = 1 << 16;

/** `id`: of the pass. */
export function plainRows(id: number, feeds: Readonly<Record<string, Tensor>>): ChainRow[] {
  const [samples = 0, tokens = 0] = Object.values(feeds)[0]?.shape ?? [];
  if (samples * tokens > positionsMax)
    fail("resource_exhausted", `${samples} samples of ${tokens} positions are more than are taken at once: send fewer`);
  return Array.from({ length: samples }, (_, sample) => ({
    ...{ request: `plain ${id} ${sample}`, position: 0, tokens, logits: tokens },
  }));
}

/** By port, as a forward pass gives them: [samples, positions, ..]. */
export function plainOutputs(
  plan: Plan,
  outputs: Readonly<Record<string, Tensor>>,
  rows: readonly ChainRow[],
): Record<string, Tensor> {
  const { value, vnode: head } = generationHead(plan);
  const found: Record<string, Tensor> = {};
  for (const { vnode, port } of plan.outputs) {
    const own = outputs[port.split(">", 1)[0] === value ? logitsOutput : port];
    if (vnode !== head || own === undefined) continue;
    const rest = own.shape.slice(port.split(">", 1)[0] === value ? 1 : 2);
    found[port] = { ...own, shape: [rows.length, rows[0]?.tokens ?? 0, ...rest] };
  }
  return found;
}
