// The weights of a VNode that answers: read once from checkpoints, in shared memory, without optimizer moments.

import { fail } from "../../core/errors.ts";
import { elementCount, firstNonFinite, type Shape, sameShape, type Tensor } from "../../core/tensor.ts";
import type { Executor, SharedBytes } from "../../engine/engine.ts";
import type { ParameterPlan } from "../../network/plan.ts";
import { readCheckpoint } from "../checkpoint.ts";

export interface WantedWeight {
  /** What graphs call it: the parameter's own name, or the port of a tie. */
  readonly name: string;
  /** What the checkpoint calls it. */
  readonly stored: string;
  readonly shape: Shape;
  readonly precision: ParameterPlan["precision"];
  readonly file: Uint8Array;
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
    for (const weight of wanted) {
      const found = find(weight);
      const block = executor.allocate(Math.max(4, elementCount(weight.shape) * 4));
      blocks.push(block);
      const data = new Float32Array(block.buffer, block.offset, elementCount(weight.shape));
      data.set(found.data as Float32Array);
      if (weight.precision !== "float32") {
        const span = { memory: block, start: 0, length: data.length };
        await executor.kernel({ kind: "round", into: span, of: span, to: weight.precision });
      }
      all[weight.name] = { dtype: "float32", shape: weight.shape, data };
    }
    return new ServingWeights(executor, all, blocks);
  }

  free(): void {
    for (const block of this.#blocks) this.#executor.free(block);
  }
}

function find({ stored, shape, file }: WantedWeight): Tensor {
  const what = "the state to serve";
  const tensor = readCheckpoint(file, what).tensors.get(stored);
  if (tensor === undefined) fail("data_loss", `${what} has no ${stored}`);
  if (tensor.dtype !== "float32" || !sameShape(tensor.shape, shape))
    fail("data_loss", `${what}: ${stored} is ${tensor.dtype} [${tensor.shape}], needed float32 [${shape}]`);
  if (firstNonFinite(tensor.data) >= 0) fail("data_loss", `${what}: ${stored} holds NaN or infinity`);
  return tensor;
}
