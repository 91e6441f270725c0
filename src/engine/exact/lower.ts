// A graph as exact numerics compute it: the same bits on every processor and every GPU that adds and multiplies single floats as IEEE says.
// Products of matrices are of whole numbers, whose sums have no order; other sums follow a tree that is part of the graph; elementary functions
// are our own. Engines run what comes out as it stands, each with its own way for the three operators of graph/operators/exact.

import { fail } from "../../core/errors.ts";
import { elementCount, type Tensor } from "../../core/tensor.ts";
import { GraphBuilder, type Value } from "../../graph/builder.ts";
import { lowerModel } from "../../graph/lower.ts";
import type { GraphModel } from "../../graph/model.ts";
import { numberOf, numbersOf, resolveAxis } from "../../graph/operators/check.ts";
import type { Attributes } from "../../graph/operators/operator.ts";
import { Arithmetic } from "./arithmetic.ts";
import { product } from "./product.ts";
import { treeSum } from "./tree-sum.ts";

/** Moves, choices, comparisons, single sums: every engine gives the same bits. */
const asTheyAre = new Set([
  ...["Abs", "Add", "Cast", "Clip", "Concat", "Equal", "Expand", "Gather", "GatherElements", "Greater", "Less", "Pad"],
  ...["ReduceMax", "Reshape", "ScatterElements", "Slice", "Split", "Sub", "Transpose", "Where", "Identity"],
]);

type Given = readonly [Value, ...Value[]];
type Rule = (builder: ExactBuilder, inputs: Given, attributes: Attributes) => Value;

const axisOf = (inputs: Given, attributes: Attributes, otherwise: number) =>
  resolveAxis("exact", inputs, numberOf(attributes, "axis", otherwise), inputs[0].shape.length);

const rules: Readonly<Record<string, Rule>> = {
  Mul: ({ math }, [a, b]) => math.mul(a, b as Value),
  Div: ({ math }, [a, b]) => math.divided(a, b as Value),
  Neg: ({ math }, [x]) => math.negated(x),
  Reciprocal: ({ math }, [x]) => math.reciprocal(x),
  Sqrt: ({ math }, [x]) => math.sqrt(x),
  Exp: ({ math }, [x]) => math.exp(x),
  Log: ({ math }, [x]) => math.log(x),
  Erf: ({ math }, [x]) => math.erf(x),
  Tanh: ({ math }, [x]) => math.tanh(x),
  Sigmoid: ({ math }, [x]) => math.sigmoid(x),
  Sum: ({ math }, inputs) => inputs.reduce((sum, each) => math.add(sum, each)),
  Relu: ({ math }, [x]) => math.where(math.greater(x, 0), x, 0),
  LeakyRelu: ({ math }, [x], attributes) =>
    math.where(math.less(x, 0), math.mul(x, Math.fround(numberOf(attributes, "alpha", 0.01))), x),
  HardSigmoid({ math }, [x], attributes) {
    const [alpha, beta] = [numberOf(attributes, "alpha", 0.2), numberOf(attributes, "beta", 0.5)].map(Math.fround);
    return math.held(math.add(math.mul(x, alpha as number), beta as number), 0, 1);
  },
  FusedGelu: ({ math }, [x]) =>
    math.mul(math.times(x, 0.5), math.add(math.erf(math.mul(x, Math.fround(Math.SQRT1_2))), 1)),
  MatMul: (builder, [a, b]) => product(builder, builder.math, a, b as Value),
  FusedMatMul: (builder, [a, b], attributes) =>
    scaled(builder, turnedProduct(builder, a, b as Value, attributes), attributes),
  Gemm(builder, [a, b, c], attributes) {
    const { math } = builder;
    const plain = scaled(builder, turnedProduct(builder, a, b as Value, attributes), attributes);
    if (c === undefined) return plain;
    const beta = numberOf(attributes, "beta", 1);
    return math.add(plain, beta === 1 ? c : math.mul(c, Math.fround(beta)));
  },
  ReduceSum: (builder, [x], attributes) => reduced(builder, x, attributes, "ReduceSum"),
  ReduceMean(builder, [x], attributes) {
    const sum = reduced(builder, x, attributes, "ReduceMean");
    return builder.math.mul(sum, Math.fround(elementCount(sum.shape) / elementCount(x.shape)));
  },
  Softmax(builder, [x], attributes) {
    const axis = axisOf([x], attributes, -1);
    const { powers, sum } = shares(builder, x, axis);
    return builder.math.mul(powers, builder.math.reciprocal(sum));
  },
  LogSoftmax(builder, [x], attributes) {
    const { shifted, sum } = shares(builder, x, axisOf([x], attributes, -1));
    return builder.math.sub(shifted, builder.math.log(sum));
  },
  BatchNormalization(builder, [x, ...perChannel], attributes) {
    const { math } = builder;
    const shape = [x.shape[1] as number, ...x.shape.slice(2).map(() => 1)];
    const [scale, bias, mean, variance] = perChannel.map((each) => builder.op("Reshape", [each], { shape })) as Value[];
    const deviation = math.sqrt(math.add(variance as Value, Math.fround(numberOf(attributes, "epsilon", 1e-5))));
    const normal = math.mul(math.sub(x, mean as Value), math.reciprocal(deviation));
    return math.add(math.mul(normal, scale as Value), bias as Value);
  },
  RotaryEmbedding: rotation,
};

function turnedProduct(builder: ExactBuilder, a: Value, b: Value, attributes: Attributes): Value {
  const turned = (value: Value, name: string) => {
    if (numberOf(attributes, name, 0) !== 1) return value;
    const rank = value.shape.length;
    const perm = value.shape.map((_, axis) => (axis < rank - 2 ? axis : 2 * rank - 3 - axis));
    return builder.op("Transpose", [value], { perm });
  };
  return product(builder, builder.math, turned(a, "transA"), turned(b, "transB"));
}

function scaled(builder: ExactBuilder, value: Value, attributes: Attributes): Value {
  const alpha = numberOf(attributes, "alpha", 1);
  return alpha === 1 ? value : builder.math.mul(value, Math.fround(alpha));
}

function reduced(builder: ExactBuilder, x: Value, attributes: Attributes, type: string): Value {
  const given = numbersOf(attributes, "axes");
  const axes = given?.length ? given.map((axis) => resolveAxis(type, [x], axis, x.shape.length)) : [...x.shape.keys()];
  const sum = axes.reduce((value, axis) => treeSum(builder, value, axis), x);
  if (numberOf(attributes, "keepdims", 1) === 1) return sum;
  return builder.op("Reshape", [sum], { shape: sum.shape.filter((_, axis) => !axes.includes(axis)) });
}

function shares(builder: ExactBuilder, x: Value, axis: number) {
  const shifted = builder.math.sub(x, builder.op("ReduceMax", [x], { axes: [axis], keepdims: 1 }));
  const powers = builder.math.exp(shifted);
  return { shifted, powers, sum: treeSum(builder, powers, axis) };
}

function rotation(builder: ExactBuilder, [x, cos, sin]: Given, attributes: Attributes): Value {
  const { math } = builder;
  const [outer, width] = [x.shape.slice(0, -1), x.shape.at(-1) as number];
  const half = width / 2;
  const isInterleaved = numberOf(attributes, "interleaved", 0) === 1;
  const pairs = isInterleaved ? builder.op("Reshape", [x], { shape: [...outer, half, 2] }) : x;
  const size = isInterleaved ? 1 : half;
  const parts = builder.ops("Split", [pairs], { axis: pairs.shape.length - 1, split: [size, size] }, 2);
  const [a, b] = parts.map((part) => builder.op("Reshape", [part], { shape: [...outer, half] })) as [Value, Value];
  const turned = [
    math.sub(math.mul(a, cos as Value), math.mul(b, sin as Value)),
    math.add(math.mul(a, sin as Value), math.mul(b, cos as Value)),
  ].map((part) => builder.op("Reshape", [part], { shape: isInterleaved ? [...outer, half, 1] : [...outer, half] }));
  const joined = builder.op("Concat", turned, { axis: pairs.shape.length - 1 });
  return builder.op("Reshape", [joined], { shape: x.shape });
}

/** y, mean, inverse deviation. */
function normalised(builder: ExactBuilder, [x, scale, bias]: Given, attributes: Attributes): Value[] {
  const { math } = builder;
  const axis = axisOf([x], attributes, -1);
  const axes = [...x.shape.keys()].filter((each) => each >= axis);
  const mean = builder.op("ReduceMean", [x], { axes, keepdims: 1 });
  const centred = math.sub(x, mean);
  const variance = builder.op("ReduceMean", [math.mul(centred, centred)], { axes, keepdims: 1 });
  const epsilon = Math.fround(numberOf(attributes, "epsilon", 1e-5));
  const inverse = math.reciprocal(math.sqrt(math.add(variance, epsilon)));
  const y = math.mul(math.mul(centred, inverse), scale as Value);
  return [bias === undefined ? y : math.add(y, bias), mean, inverse];
}

export class ExactBuilder extends GraphBuilder {
  readonly math = new Arithmetic(this);

  raw(type: string, inputs: readonly Value[], attributes: Attributes = {}): Value {
    return super.ops(type, inputs, attributes, 1)[0] as Value;
  }

  override ops(type: string, inputs: readonly Value[], attributes: Attributes, outputCount: number): Value[] {
    if (asTheyAre.has(type) || inputs.some(({ dtype }) => dtype === "int32" || dtype === "int64"))
      return super.ops(type, inputs, attributes, outputCount);
    const given = inputs as unknown as Given;
    if (type === "LayerNormalization") return normalised(this, given, attributes).slice(0, outputCount);
    const rule = rules[type];
    if (rule === undefined || outputCount !== 1)
      fail("unimplemented", `exact numerics have no ${type}: use portable for this network`);
    return [rule(this, given, attributes)];
  }
}

/** Inputs and outputs keep their names and order. */
export function exactGraph(model: GraphModel): GraphModel {
  const builder = new ExactBuilder(model.name);
  const lowered = lowerModel(model);
  const given = new Map<string, Value>();
  for (const { name, dtype, shape } of lowered.inputs) {
    const input = builder.input(name, dtype, shape);
    given.set(name, dtype === "float32" ? builder.math.plain(input) : input);
  }
  const constants = Object.entries(lowered.constants).map(([name, tensor]) => [name, plainConstant(tensor)] as const);
  const values = builder.replay({ ...lowered, constants: Object.fromEntries(constants) }, given);
  for (const { name } of model.outputs) builder.output(values.get(name) as Value, name);
  return builder.build();
}

function plainConstant(tensor: Tensor): Tensor {
  if (tensor.dtype !== "float32") return tensor;
  const data = (tensor.data as Float32Array).map((value) => (Math.abs(value) < 2 ** -100 ? 0 : value));
  return { ...tensor, data };
}
