// ChanceMask(x, mask): x times a mask that the VNode draws (dropout, random masks). The mask never has a
// gradient: it is chance, not computed.

import { reduceTo } from "../elements/elementwise.ts";
import { mul } from "../elements/mul.ts";
import type { Operator, Value } from "../operator.ts";

export const chanceMask: Operator = {
  ...mul,
  type: "ChanceMask",
  lower: (builder, inputs) => [builder.op("Mul", inputs)],
  vjp({ builder, inputs, gradients }) {
    const [x, mask] = inputs as [Value, Value];
    return [reduceTo(builder, builder.op("Mul", [gradients[0] as Value, mask]), x.shape), undefined];
  },
};
