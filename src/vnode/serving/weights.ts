// The weights of a VNode that answers: read once from stored states straight into shared memory, without the moments.

import { fail } from "../../core/errors.ts";
import { elementCount, type Shape, type Tensor } from "../../core/tensor.ts";
import type { Executor, SharedBytes } from "../../engine/engine.ts";
import type { ParameterPlan } from "../../network/plan.ts";
import type { StateReader, WantedTensor } from "../../states/reader.ts";

export interface WantedWeight {
  /** What graphs call it: the parameter's own name, or the port of a tie. */
  readonly name: string;
  /** What the state calls it. */
  readonly stored: string;
  readonly shape: Shape;
  readonly precision: ParameterPlan["precision"];
  readonly state: StateReader;
}

export class ServingWeights {
  readonly all: Readonly<Record<string, Tensor>>;
  readonly bytes: number;
  readonly #executor: Executor;
  readonly #blocks: readonly SharedBytes[];

  private constructor(executor: Executor, all: Record<string, Tensor>, blocks: readonly SharedBytes[]) {
    this.all = all;
    this.#executor = executor;
    this.#blocks = blocks;
    this.bytes = blocks.reduce((sum, block) => sum + block.bytes, 0);
  }

  static async load(wanted: readonly WantedWeight[], executor: Executor): Promise<ServingWeights> {
    const all: Record<string, Tensor> = {};
    const blocks: SharedBytes[] = [];
    try {
      const byState = new Map<StateReader, WantedTensor[]>();
      for (const { name, stored, shape, state } of wanted) {
        const block = executor.allocate(Math.max(4, elementCount(shape) * 4));
        blocks.push(block);
        const data = new Float32Array(block.buffer, block.offset, elementCount(shape));
        all[name] = { dtype: "float32", shape, data };
        byState.set(state, [...(byState.get(state) ?? []), { name: stored, shape, into: data }]);
      }
      for (const [state, tensors] of byState) await state.readInto(tensors);
      for (const [index, weight] of wanted.entries()) await finish(weight, blocks[index] as SharedBytes, executor);
      return new ServingWeights(executor, all, blocks);
    } catch (error) {
      for (const block of blocks) executor.free(block);
      throw error;
    }
  }

  free(): void {
    for (const block of this.#blocks) this.#executor.free(block);
  }
}

/** Refuses what is no number, and rounds to the precision that the network works in. */
async function finish(
  { stored, shape, precision, state }: WantedWeight,
  block: SharedBytes,
  executor: Executor,
): Promise<void> {
  const span = { memory: block, start: 0, length: elementCount(shape) };
  if (span.length === 0) return;
  const { value } = await executor.kernel({ kind: "finite", of: span });
  if (value !== 1) fail("data_loss", `${state.what}: ${stored} holds NaN or infinity`);
  if (precision !== "float32") await executor.kernel({ kind: "round", into: span, of: span, to: precision });
}
