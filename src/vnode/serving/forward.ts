// The numerics of a VNode of a network that does not generate: explicit tensors, all samples at once, no caches. Graphs are
// built for the numbers of samples that occur and kept for a while.

import type { Tensor } from "../../core/tensor.ts";
import type { Executor } from "../../engine/engine.ts";
import type { AnsweringGraphs } from "../../network/works.ts";
import type { ServingWeights } from "./weights.ts";

/** Loading a graph takes about a millisecond, keeping one a few hundred kilobytes. */
const graphsMax = 12;

export interface ForwardNeeds {
  readonly graphs: AnsweringGraphs;
  readonly executor: Executor;
  readonly weights: ServingWeights;
  /** Unique among what the executor runs. */
  readonly name: string;
}

export class VNodeForward {
  readonly #needs: ForwardNeeds;
  /** By samples, those not used for longest first. */
  readonly #loaded = new Map<number, string>();

  constructor(needs: ForwardNeeds) {
    this.#needs = needs;
  }

  /** Outputs by port. The caller gives tensors back by `recycle`. */
  async run(inputs: Readonly<Record<string, Tensor>>, samples: number): Promise<Record<string, Tensor>> {
    const { executor, weights } = this.#needs;
    const name = await this.#load(samples);
    const results = await executor.run(name, { ...weights.all, ...inputs }, { finite: true });
    return results as Record<string, Tensor>;
  }

  async #load(samples: number): Promise<string> {
    const { graphs, executor } = this.#needs;
    const name = `${this.#needs.name}/${samples}`;
    if (!this.#loaded.has(samples)) {
      const graph = await graphs.inference(samples);
      if (!this.#loaded.has(samples)) executor.register(name, graph);
    }
    this.#loaded.delete(samples);
    this.#loaded.set(samples, name);
    for (const [oldest, old] of this.#loaded) {
      if (this.#loaded.size <= graphsMax) break;
      this.#loaded.delete(oldest);
      executor.unregister(old);
    }
    return name;
  }

  recycle(tensors: Iterable<Tensor>): void {
    this.#needs.executor.recycle(tensors);
  }

  close(): void {
    for (const name of this.#loaded.values()) this.#needs.executor.unregister(name);
    this.#needs.weights.free();
  }
}
