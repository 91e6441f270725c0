// Dropout as imported models carry it, for inference: y = x. Training drops values with a mask that is a
// graph input (chance-mask.ts), since nothing in a graph may draw random numbers.

import type { Operator } from "../operator.ts";
import { sameData } from "../shapes/copy.ts";

export const dropout: Operator = {
  type: "Dropout",
  cheap: true,
  infer: (inputs) => inputs.slice(0, 1).map(({ dtype, shape }) => ({ dtype, shape })),
  plan: () => sameData,
  vjp: ({ gradients }) => [gradients[0]],
  lower: (_builder, inputs) => inputs.slice(0, 1),
  flops: () => 0,
};
