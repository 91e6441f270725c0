// Element-wise operators on four elements at a time. Floats and whole numbers are 32-bit lanes; conditions are lanes of
// ones or zeros. What has no entry here runs by the operator's own reference kernel.

import type { DType } from "../../core/tensor.ts";
import type { GraphNode, ValueInfo } from "../../graph/model.ts";
import { numberOf } from "../../graph/operators/check.ts";
import { exponentMax } from "../../graph/operators/exact/exponent-of.ts";
import { type Code, f32x4, get, i32x4, v128 } from "../kernels/wasm.ts";
import type { FunctionBuilder } from "../kernels/wasm-module.ts";
import { erfOf, expOf, geluOf, logOf, sigmoidOf, tanhOf } from "./functions.ts";

type Vector = Code<"v128">;

interface Lanes {
  readonly fn: FunctionBuilder;
  readonly node: GraphNode;
  /** Cheap to repeat: each is a local or a constant. */
  readonly inputs: readonly Vector[];
  readonly from: DType;
  readonly to: DType;
}

type Rule = (lanes: Lanes) => Vector;

const splat = (fn: FunctionBuilder, value: number) => fn.literal(f32x4.splat(value));
const number = ({ fn, node }: Lanes, name: string, otherwise: number) =>
  splat(fn, numberOf(node.attributes, name, otherwise));
const one = (apply: (fn: FunctionBuilder, x: Vector) => Vector): Rule => {
  return ({ fn, inputs: [x] }) => apply(fn, x as Vector);
};
const two = (apply: (a: Vector, b: Vector) => Vector): Rule => {
  return ({ inputs: [a, b] }) => apply(a as Vector, b as Vector);
};

const floatRules: Readonly<Record<string, Rule>> = {
  ExponentOf: one(exponentLanes),
  PowerOfTwo: one((fn, x) => i32x4.shiftLeft(i32x4.add(f32x4.truncate(x), fn.literal(i32x4.splat(127))), 23)),
  Add: two(f32x4.add),
  Sub: two(f32x4.sub),
  Mul: two(f32x4.mul),
  Div: two(f32x4.div),
  Sum: ({ inputs }) => inputs.reduce(f32x4.add),
  Neg: one((_, x) => f32x4.neg(x)),
  Abs: one((_, x) => f32x4.abs(x)),
  Sqrt: one((_, x) => f32x4.sqrt(x)),
  Reciprocal: one((fn, x) => f32x4.div(splat(fn, 1), x)),
  Relu: one((fn, x) => f32x4.max(x, splat(fn, 0))),
  Exp: one(expOf),
  Log: one(logOf),
  Erf: one(erfOf),
  Tanh: one(tanhOf),
  Sigmoid: one(sigmoidOf),
  FusedGelu: one(geluOf),
  LeakyRelu: (lanes) => {
    const x = lanes.inputs[0] as Vector;
    return v128.select(x, f32x4.mul(x, number(lanes, "alpha", 0.01)), f32x4.atLeast(x, splat(lanes.fn, 0)));
  },
  HardSigmoid: (lanes) => {
    const line = f32x4.mul(lanes.inputs[0] as Vector, number(lanes, "alpha", 0.2));
    return f32x4.max(f32x4.min(f32x4.add(line, number(lanes, "beta", 0.5)), splat(lanes.fn, 1)), splat(lanes.fn, 0));
  },
  Clip: (lanes) => {
    const { min, max } = lanes.node.attributes;
    const above =
      typeof min === "number"
        ? f32x4.max(lanes.inputs[0] as Vector, splat(lanes.fn, min))
        : (lanes.inputs[0] as Vector);
    return typeof max === "number" ? f32x4.min(above, splat(lanes.fn, max)) : above;
  },
  Greater: two(f32x4.greater),
  Less: two(f32x4.less),
  Equal: two(f32x4.equal),
};

/** The bits of the exponent, held between -100 and 100 as a float. */
function exponentLanes(fn: FunctionBuilder, x: Vector): Vector {
  const raised = i32x4.shiftRight(f32x4.abs(x), 23);
  const exponent = f32x4.ofSigned(i32x4.sub(raised, fn.literal(i32x4.splat(127))));
  return f32x4.max(f32x4.min(exponent, splat(fn, exponentMax)), splat(fn, -exponentMax));
}

const wholeRules: Readonly<Record<string, Rule>> = {
  Add: two(i32x4.add),
  Sub: two(i32x4.sub),
  Mul: two(i32x4.mul),
  Greater: two(i32x4.greaterSigned),
  Less: two(i32x4.lessSigned),
  Equal: two(i32x4.equal),
};

const where: Rule = ({ inputs: [condition, a, b] }) => v128.select(a as Vector, b as Vector, condition as Vector);

/** Between the three kinds of lanes; a condition is 1 or 0 as a number. */
const cast: Rule = ({ fn, inputs, from, to }) => {
  const x = inputs[0] as Vector;
  if (from === to) return x;
  if (from === "bool") return to === "float32" ? v128.and(x, splat(fn, 1)) : v128.and(x, i32x4.splat(1));
  if (to === "bool")
    return v128.not(from === "float32" ? f32x4.equal(x, splat(fn, 0)) : i32x4.equal(x, i32x4.splat(0)));
  return to === "float32" ? f32x4.ofSigned(x) : f32x4.truncate(x);
};

function ruleOf(op: string, from: DType): Rule | undefined {
  if (op === "Where") return where;
  if (op === "Cast") return cast;
  return from === "float32" ? floatRules[op] : from === "int32" ? wholeRules[op] : undefined;
}

/** The dtypes that lanes can hold. */
export function fitsLanes(dtype: DType): boolean {
  return dtype === "float32" || dtype === "int32" || dtype === "bool";
}

export function isElementwise(node: GraphNode, inputs: readonly ValueInfo[], output: ValueInfo): boolean {
  if (!fitsLanes(output.dtype) || !inputs.every(({ dtype }) => fitsLanes(dtype))) return false;
  if (node.op === "Where" && inputs[1]?.dtype === "bool") return false;
  return ruleOf(node.op, inputs[0]?.dtype as DType) !== undefined;
}

/** The node's result; its inputs are locals or constants. */
export function elementwiseCode(
  fn: FunctionBuilder,
  node: GraphNode,
  inputs: readonly Vector[],
  from: DType,
  to: DType,
): Vector {
  const rule = ruleOf(node.op, from) as Rule;
  return get(fn.keep(rule({ fn, node, inputs, from, to })));
}
