// Graphs of served models in the operators that ONNX Runtime has for them: a norm is one operator instead of seven, which
// for single rows costs as much as a product of matrices. Training keeps to the plain ones, whose bits its sessions promise.

import { GraphBuilder, type Value } from "../../graph/builder.ts";
import type { GraphModel } from "../../graph/model.ts";
import { numberOf } from "../../graph/operators/check.ts";
import type { Attributes } from "../../graph/operators/operator.ts";

type Rule = (builder: GraphBuilder, x: Value, attributes: Attributes, scale: Value) => Value;

const silu = (builder: GraphBuilder, x: Value) => builder.op("QuickGelu", [x], { alpha: 1 });

/** By composite (graph/unit.ts names those that units keep whole). */
const rules: Readonly<Record<string, Rule>> = {
  RmsNorm: (builder, x, attributes, scale) =>
    builder.op("SimplifiedLayerNormalization", [x, scale], {
      axis: -1,
      epsilon: numberOf(attributes, "epsilon", 1e-6),
    }),
  Silu: silu,
  SwiGlu(builder, x) {
    const half = (x.shape.at(-1) as number) / 2;
    const [value, gate] = builder.ops("Split", [x], { axis: x.shape.length - 1, split: [half, half] }, 2);
    return builder.op("Mul", [value as Value, silu(builder, gate as Value)]);
  },
};

/** Other composites become what they are for all engines. */
export function withRuntimeRows(model: GraphModel): GraphModel {
  const builder = new GraphBuilder(model.name, { lowering: true });
  const values = builder.replay(model, undefined, ({ op, attributes }, [x, scale]) =>
    rules[op]?.(builder, x as Value, attributes, scale as Value),
  );
  for (const { name } of model.outputs) builder.output(values.get(name) as Value, name);
  return builder.build();
}
