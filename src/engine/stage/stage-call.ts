// What an executor asks of the stages at a worker, and what comes back.

import type { Tensor } from "../../core/tensor.ts";
import type { WeightBits } from "../../graph/quantise.ts";
import type { UnitPlan } from "../../graph/unit.ts";
import type { LoadedUnit, StageFeed, Tensors } from "../engine.ts";
import type { StagePass } from "./stage-pass.ts";

/** In order. */
export type StageCall =
  | {
      readonly kind: "load";
      readonly plan: UnitPlan;
      readonly name: string;
      readonly weights: Tensors;
      readonly bits?: WeightBits;
    }
  | { readonly kind: "unload"; readonly name: string }
  | { readonly kind: "drop"; readonly name: string; readonly requests: readonly string[] | "all" }
  | {
      readonly kind: "run";
      readonly pass: StagePass;
      readonly feeds: readonly StageFeed[];
      /** For results. They go to the worker, and come back with what it writes there. */
      readonly spare: readonly ArrayBuffer[];
    };

export interface StageAnswer {
  readonly loaded?: LoadedUnit;
  readonly tensors?: readonly Tensor[];
}
