// A network with adapters as one without: what they add is added to the weights that they stand beside.

import { fail } from "../../core/errors.ts";
import type { Tensor } from "../../core/tensor.ts";
import { adaptersOf, mergedWeight, withoutAdapters } from "../../network/adapters.ts";
import { compileText } from "../../network/compile.ts";

export interface Loadable {
  readonly definition: string;
  load(parameter: string): Promise<Tensor>;
}

export function merged({ definition, load }: Loadable): Loadable {
  const byWeight = new Map(adaptersOf(compileText(definition)).map((one) => [one.weight, one]));
  if (byWeight.size === 0) fail("failed_precondition", "the network has no adapters to merge");
  return {
    definition: withoutAdapters(definition),
    async load(parameter) {
      const own = await load(parameter);
      const adapter = byWeight.get(parameter);
      return adapter ? mergedWeight(own, await load(adapter.a), await load(adapter.b), adapter.scale) : own;
    },
  };
}
