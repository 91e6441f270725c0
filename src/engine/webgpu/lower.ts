// Graphs as the WebGPU provider runs them whole: it has no FusedMatMul, LogSoftmax or Gelu of its own, and a node that falls back
// to the CPU costs a copy to the host and one back. What is written here decides bits, so it is part of the class.

import { fail } from "../../core/errors.ts";
import { GraphBuilder, type Value } from "../../graph/builder.ts";
import { lowerModel } from "../../graph/lower.ts";
import type { GraphModel } from "../../graph/model.ts";
import { numberOf } from "../../graph/operators/check.ts";
import { onnxTypeOf } from "../../graph/operators/elements/cast.ts";
import type { Attributes } from "../../graph/operators/operator.ts";
import { maximaOf } from "./max-pool.ts";

type Replacement = (builder: DeviceBuilder, inputs: readonly Value[], attributes: Attributes) => Value;

const replacements: Readonly<Record<string, Replacement>> = {
  FusedMatMul(builder, [a, b], attributes) {
    if (a === undefined || b === undefined) return fail("internal", "a product has two factors");
    const turned = (value: Value, name: string) => (numberOf(attributes, name, 0) === 1 ? turn(builder, value) : value);
    const product = builder.op("MatMul", [turned(a, "transA"), turned(b, "transB")]);
    const alpha = numberOf(attributes, "alpha", 1);
    return alpha === 1 ? product : builder.op("Mul", [product, builder.scalar(alpha)]);
  },
  LogSoftmax(builder, [x], attributes) {
    if (x === undefined) return fail("internal", "a LogSoftmax has an input");
    const axes = { axes: [numberOf(attributes, "axis", -1)], keepdims: 1 };
    const shifted = builder.op("Sub", [x, builder.op("ReduceMax", [x], axes)]);
    const sum = builder.op("ReduceSum", [builder.op("Exp", [shifted])], axes);
    return builder.op("Sub", [shifted, builder.op("Log", [sum])]);
  },
  Slice(builder, [x], attributes) {
    if (x === undefined) return fail("internal", "a Slice has an input");
    const slice = (value: Value) => builder.plain("Slice", [value], attributes);
    return x.dtype === "int32" ? asFloats(builder, x, slice) : slice(x);
  },
  FusedGelu(builder, [x]) {
    if (x === undefined) return fail("internal", "a Gelu has an input");
    const error = builder.op("Erf", [builder.op("Mul", [x, builder.scalar(Math.SQRT1_2)])]);
    const half = builder.op("Mul", [x, builder.scalar(0.5)]);
    return builder.op("Mul", [half, builder.op("Add", [error, builder.scalar(1)])]);
  },
};

/** Whole numbers below 2^24 as floats and back: labels and tokens, which the provider does not cut as they are. */
function asFloats(builder: GraphBuilder, x: Value, work: (floats: Value) => Value): Value {
  return builder.op("Cast", [work(builder.op("Cast", [x], { to: onnxTypeOf("float32") }))], {
    to: onnxTypeOf(x.dtype),
  });
}

/** The last two axes exchanged. */
function turn(builder: GraphBuilder, value: Value): Value {
  const rank = value.shape.length;
  const perm = value.shape.map((_, axis) => (axis < rank - 2 ? axis : 2 * rank - 3 - axis));
  return builder.op("Transpose", [value], { perm });
}

class DeviceBuilder extends GraphBuilder {
  /** As it stands. */
  plain(type: string, inputs: readonly Value[], attributes: Attributes): Value {
    return super.ops(type, inputs, attributes, 1)[0] as Value;
  }

  override ops(type: string, inputs: readonly Value[], attributes: Attributes, outputCount: number): Value[] {
    if (type === "MaxPool" && outputCount === 2) return this.#withMaxima(inputs[0] as Value, attributes);
    const replacement = replacements[type];
    return replacement ? [replacement(this, inputs, attributes)] : super.ops(type, inputs, attributes, outputCount);
  }

  #withMaxima(x: Value, attributes: Attributes): Value[] {
    const pooled = this.plain("MaxPool", [x], attributes);
    return [pooled, maximaOf(this, x, pooled, attributes)];
  }
}

/** The same function in operators that the provider has. Inputs and outputs keep their names and order. */
export function lowerForDevice(model: GraphModel): GraphModel {
  const builder = new DeviceBuilder(model.name);
  const values = builder.replay(lowerModel(model));
  for (const { name } of model.outputs) builder.output(values.get(name) as Value, name);
  return builder.build();
}
