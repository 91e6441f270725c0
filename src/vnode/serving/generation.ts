// The numerics of a VNode that answers token by token: a unit at a worker's stage, with caches for its attention. Passes
// go through the units of several VNodes at once (chain.ts); here one of them is loaded and let go.

import type { LoadedUnit, StageExecutor } from "../../engine/engine.ts";
import type { WeightBits } from "../../graph/quantise.ts";
import { hiddenOutput, type UnitPlan } from "../../graph/unit.ts";
import type { ServingWeights } from "./weights.ts";

export interface GenerationNeeds {
  readonly unit: UnitPlan;
  readonly stage: StageExecutor;
  readonly weights: ServingWeights;
  /** Weights are kept in so many bits; absent: as they are. */
  readonly bits?: WeightBits | undefined;
  /** Unique among what the stage runs. */
  readonly name: string;
}

export class VNodeGeneration {
  readonly unit: UnitPlan;
  readonly name: string;
  /** What weights of few bits lost of their size, on the average. */
  readonly weightError: number;
  readonly #stage: StageExecutor;
  /** As long as the unit reads them. */
  readonly #weights: ServingWeights | undefined;

  private constructor({ unit, stage, weights, name }: GenerationNeeds, { keepsWeights, weightError }: LoadedUnit) {
    this.weightError = weightError;
    this.unit = unit;
    this.name = name;
    this.#stage = stage;
    this.#weights = keepsWeights ? weights : undefined;
  }

  static async open(needs: GenerationNeeds): Promise<VNodeGeneration> {
    const { unit, stage, weights, bits, name } = needs;
    let loaded: LoadedUnit | undefined;
    try {
      loaded = await stage.load(unit, name, weights.all, bits);
      return new VNodeGeneration(needs, loaded);
    } finally {
      if (!loaded?.keepsWeights) weights.free();
    }
  }

  /** Of a head: whether what logits are made of can be told. */
  get givesHidden(): boolean {
    return this.unit.outputs.some(({ name }) => name === hiddenOutput);
  }

  drop(requests: readonly string[]): void {
    if (requests.length > 0) this.#stage.drop(this.name, requests);
  }

  clear(): void {
    this.#stage.drop(this.name, "all");
  }

  /** Weights are freed after what the stage has still to do with them. */
  async close(): Promise<void> {
    await this.#stage.unload(this.name);
    this.#weights?.free();
  }
}
