// Gelu: x Phi(x) with the exact normal distribution Phi. The backward recomputes Phi from x in as few
// passes over memory as ONNX allows.

import { erf } from "../../../core/numbers/math.ts";
import { unary } from "../elements/elementwise.ts";
import type { Builder, Operator, Value } from "../operator.ts";

const rootHalf = Math.SQRT1_2;
/** log(1 / sqrt(2 pi)): inside the exponent it saves a multiplication of the whole tensor. */
const logBell = -0.9189385332046727;

/** u = x / sqrt(2) and Phi(x) = (1 + erf(u)) / 2; HardSigmoid scales and shifts in one pass and clips nothing here. */
function distribution(builder: Builder, x: Value): { u: Value; phi: Value } {
  const u = builder.op("Mul", [x, builder.scalar(rootHalf)]);
  return { u, phi: builder.op("HardSigmoid", [builder.op("Erf", [u])], { alpha: 0.5, beta: 0.5 }) };
}

export function geluOf(x: number): number {
  return 0.5 * x * (1 + erf(x * rootHalf));
}

export const gelu: Operator = {
  ...unary("Gelu", geluOf),
  lower: (builder, inputs) => [builder.op("FusedGelu", [inputs[0] as Value])],
  vjp({ builder, inputs, gradients }) {
    const [x] = inputs as [Value];
    const { u, phi } = distribution(builder, x);
    const bell = builder.op("Exp", [builder.op("Sub", [builder.scalar(logBell), builder.op("Mul", [u, u])])]);
    const slope = builder.op("Add", [builder.op("Mul", [x, bell]), phi]);
    return [builder.op("Mul", [gradients[0] as Value, slope])];
  },
  flops: (inputs) => 8 * (inputs[0]?.shape ?? []).reduce((product, size) => product * size, 1),
};
