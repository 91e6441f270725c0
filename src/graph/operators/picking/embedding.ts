// Embedding(table [rows, width], ids int32 [..]) -> [.., width]: looks up rows. Its table's gradient is
// sparse: the derivative hands out the rows' gradients, and the VNode adds them in index order.

import { checkArity, checkFloat, checkRank } from "../check.ts";
import type { Operator, Value } from "../operator.ts";
import { gather, gatherGradient } from "./gather.ts";

export const embedding: Operator = {
  type: "Embedding",
  cheap: true,
  infer(inputs) {
    checkArity("Embedding", inputs, 2);
    checkFloat("Embedding", inputs.slice(0, 1));
    checkRank("Embedding", inputs, 0, 2);
    return gather.infer(inputs, {});
  },
  plan: (inputs, outputs) => gather.plan(inputs, outputs, {}),
  lower: (builder, inputs) => [builder.op("Gather", inputs as Value[])],
  vjp: (derivation) => gatherGradient({ ...derivation, attributes: {} }),
  flops: () => 0,
};
