// Replaces composites by ONNX operators, and cleans up what that leaves.

import { GraphBuilder, type Value } from "./builder.ts";
import { mergeLinears } from "./merge.ts";
import type { GraphModel } from "./model.ts";

/** The same function in ONNX operators only, and composites that are to stay. Inputs and outputs keep their names and order. */
export function lowerModel(model: GraphModel, composites?: ReadonlySet<string>): GraphModel {
  const builder = new GraphBuilder(model.name, { lowering: true, ...(composites && { composites }) });
  const values = builder.replay(mergeLinears(model));
  for (const { name } of model.outputs) builder.output(values.get(name) as Value, name);
  return builder.build();
}
