// What graphs compute with: the weights themselves, or copies rounded to a half precision. The masters that
// learn are always float32.

import type { Tensor } from "../core/tensor.ts";
import type { Executor, Float32Span, SharedBytes } from "../engine/engine.ts";
import type { VNodePlan } from "../network/plan.ts";
import { type Layout, type Place, spanOf, tensorAt } from "./layout.ts";
import type { VNodeState } from "./state.ts";

interface Rounded {
  readonly place: Place;
  readonly to: "float16" | "bfloat16";
  readonly of: Float32Span;
}

export class WorkingWeights {
  readonly all: Readonly<Record<string, Tensor>>;
  readonly #executor: Executor;
  readonly #rounded: readonly Rounded[];
  readonly #memory: SharedBytes | undefined;

  constructor(plan: VNodePlan, layout: Layout, state: VNodeState, executor: Executor) {
    this.#executor = executor;
    this.#rounded = [...layout.parameters, ...layout.frozen].flatMap((place): Rounded[] => {
      const { precision } = plan.parameters.find((parameter) => parameter.name === place.name)!;
      return precision === "float32" ? [] : [{ place, to: precision, of: state.spanOf(place) }];
    });
    this.#memory = this.#rounded.length > 0 ? executor.allocate(4 * layout.storedLength) : undefined;
    const all: Record<string, Tensor> = Object.fromEntries([...state.tensors, ...state.frozen]);
    for (const { place } of this.#rounded) all[place.name] = tensorAt(this.#memory!, place);
    this.all = all;
  }

  named(names: ReadonlySet<string>): Record<string, Tensor> {
    return Object.fromEntries(Object.entries(this.all).filter(([name]) => names.has(name)));
  }

  /** To be called whenever the masters have changed. */
  async refresh(): Promise<void> {
    for (const { place, to, of } of this.#rounded)
      await this.#executor.kernel({
        kind: "round",
        into: spanOf(this.#memory!, place.start, place.length),
        of,
        to,
      });
  }

  free(): void {
    if (this.#memory !== undefined) this.#executor.free(this.#memory);
  }
}
