// Element-wise operators as WGSL expressions. Operands are names or literals, so that each may stand several times.

import type { DType } from "../../core/tensor.ts";
import type { GraphNode, ValueInfo } from "../../graph/model.ts";
import { numberOf } from "../../graph/operators/check.ts";
import { literal } from "./shader.ts";

type Rule = (operands: readonly string[], node: GraphNode) => string;

const one = (write: (x: string) => string): Rule => {
  return ([x]) => write(x as string);
};
const two = (sign: string): Rule => {
  return ([a, b]) => `(${a} ${sign} ${b})`;
};

const comparisons: Readonly<Record<string, Rule>> = { Greater: two(">"), Less: two("<"), Equal: two("==") };

const floatRules: Readonly<Record<string, Rule>> = {
  ...comparisons,
  Add: two("+"),
  Sub: two("-"),
  Mul: two("*"),
  Div: two("/"),
  Neg: one((x) => `(-${x})`),
  Abs: one((x) => `abs(${x})`),
  Sqrt: one((x) => `sqrt(${x})`),
  Reciprocal: one((x) => `(1f / ${x})`),
  Relu: one((x) => `max(${x}, 0f)`),
  Exp: one((x) => `exponential(${x})`),
  Log: one((x) => `logarithm(${x})`),
  Erf: one((x) => `error_of(${x})`),
  Tanh: one((x) => `hyperbolic(${x})`),
  Sigmoid: one((x) => `logistic(${x})`),
  FusedGelu: one((x) => `(${x} * 0.5f * (error_of(${x} * ${literal(Math.SQRT1_2)}) + 1f))`),
  LeakyRelu: ([x], node) => `select(${x} * ${literal(numberOf(node.attributes, "alpha", 0.01))}, ${x}, ${x} >= 0f)`,
  HardSigmoid: ([x], { attributes }) => {
    const line = `${x} * ${literal(numberOf(attributes, "alpha", 0.2))} + ${literal(numberOf(attributes, "beta", 0.5))}`;
    return `clamp(${line}, 0f, 1f)`;
  },
  Clip: ([x], { attributes: { min, max } }) => {
    const above = typeof min === "number" ? `max(${x}, ${literal(min)})` : (x as string);
    return typeof max === "number" ? `min(${above}, ${literal(max)})` : above;
  },
};

const wholeRules: Readonly<Record<string, Rule>> = {
  ...comparisons,
  Add: two("+"),
  Sub: two("-"),
  Mul: two("*"),
  Neg: one((x) => `(-${x})`),
  Abs: one((x) => `abs(${x})`),
};

const isWhole = (dtype: DType) => dtype === "int32" || dtype === "int64";
const fits = (dtype: DType) => dtype === "float32" || dtype === "bool" || isWhole(dtype);

function cast(x: string, from: DType, to: DType): string {
  if (from === "bool") return to === "bool" ? x : to === "float32" ? `select(0f, 1f, ${x})` : `select(0, 1, ${x})`;
  if (to === "bool") return from === "float32" ? `(${x} != 0f)` : `(${x} != 0)`;
  if (isWhole(from) === isWhole(to)) return x;
  return to === "float32" ? `f32(${x})` : `i32(${x})`;
}

function ruleOf(op: string, from: DType): Rule | undefined {
  return from === "float32" ? floatRules[op] : isWhole(from) ? wholeRules[op] : undefined;
}

export function isElementwise(node: GraphNode, inputs: readonly ValueInfo[], output: ValueInfo): boolean {
  if (!fits(output.dtype) || !inputs.every(({ dtype }) => fits(dtype))) return false;
  return node.op === "Cast" || node.op === "Where" || ruleOf(node.op, inputs[0]?.dtype as DType) !== undefined;
}

/** The node's result. */
export function elementCode(node: GraphNode, operands: readonly string[], from: DType, to: DType): string {
  if (node.op === "Cast") return cast(operands[0] as string, from, to);
  if (node.op === "Where") return `select(${operands[2]}, ${operands[1]}, ${operands[0]})`;
  return (ruleOf(node.op, from) as Rule)(operands, node);
}
