// Pow {exponent: one of 0.5, 1, 2, 3, 4 or negatives of them}: y = x^exponent. Imported models carry the
// exponent as a constant; small exponents are products, which need no general power function.

import { fail } from "../../../core/errors.ts";
import { numberOf } from "../check.ts";
import type { Attributes, Builder, Operator, Value } from "../operator.ts";
import { mapKernel, unary } from "./elementwise.ts";

/** Larger exponents would be long products for nobody's use. */
const exponentMax = 8;

function exponentOf(attributes: Attributes): number {
  const exponent = numberOf(attributes, "exponent", Number.NaN);
  const known = exponent === 0.5 || exponent === -0.5 || Number.isInteger(exponent);
  if (!known || Math.abs(exponent) > exponentMax)
    fail(
      "invalid_argument",
      `Pow: the exponent must be 0.5, -0.5 or a whole number up to ${exponentMax}, not ${exponent}`,
    );
  return exponent;
}

function power(x: number, exponent: number): number {
  if (exponent < 0) return 1 / power(x, -exponent);
  if (exponent === 0.5) return Math.sqrt(x);
  let product = 1;
  for (let i = 0; i < exponent; i++) product *= x;
  return product;
}

function lowerPower(builder: Builder, x: Value, exponent: number): Value {
  if (exponent < 0) return builder.op("Reciprocal", [lowerPower(builder, x, -exponent)]);
  if (exponent === 0.5) return builder.op("Sqrt", [x]);
  if (exponent === 0) return builder.op("Expand", [builder.scalar(1)], { shape: x.shape });
  if (exponent === 1) return x;
  const half = lowerPower(builder, x, Math.floor(exponent / 2));
  const square = builder.op("Mul", [half, half]);
  return exponent % 2 === 0 ? square : builder.op("Mul", [square, x]);
}

export const pow: Operator = {
  ...unary("Pow", (x) => x),
  infer(inputs, attributes) {
    exponentOf(attributes);
    return unary("Pow", (x) => x).infer(inputs, attributes);
  },
  plan(_inputs, _outputs, attributes) {
    const exponent = exponentOf(attributes);
    return mapKernel((x) => power(x, exponent));
  },
  lower: (builder, inputs, attributes) => [lowerPower(builder, inputs[0] as Value, exponentOf(attributes))],
  vjp({ builder, inputs, gradients, attributes }) {
    const [x] = inputs as [Value];
    const exponent = exponentOf(attributes);
    if (exponent === 0) return [undefined];
    const below =
      Math.abs(exponent) === 0.5
        ? builder.op("Div", [lowerPower(builder, x, exponent), x])
        : lowerPower(builder, x, exponent - 1);
    const slope = builder.op("Mul", [below, builder.scalar(exponent)]);
    return [builder.op("Mul", [gradients[0] as Value, slope])];
  },
};
