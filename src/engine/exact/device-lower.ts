// The three operators of exact numerics in ones that a GPU's runtime has. Its products of floats may add in any order and fuse as they like: whole
// numbers cut into slices of 7 bits have sums below 2^23, which floats hold exactly. Its logarithm only has to be near: what follows from it is
// put right by comparisons.

import { float32 } from "../../core/tensor.ts";
import { GraphBuilder, type Value } from "../../graph/builder.ts";
import type { GraphModel } from "../../graph/model.ts";
import { onnxTypeOf } from "../../graph/operators/elements/cast.ts";
import { exponentMax } from "../../graph/operators/exact/exponent-of.ts";
import { integerDepth } from "../../graph/operators/exact/integer-matmul.ts";
import type { Attributes } from "../../graph/operators/operator.ts";
import { Arithmetic } from "./arithmetic.ts";

const powerMin = -126;
const powers = float32(
  [254],
  Float32Array.from({ length: 254 }, (_, i) => 2 ** (i + powerMin)),
);

/** Slices of 7 bits: of 21-bit numbers there are three. */
const sliceBits = 7;
const slice = 2 ** sliceBits;

class DeviceLowering extends GraphBuilder {
  readonly math = new Arithmetic(this);

  raw(type: string, inputs: readonly Value[], attributes: Attributes = {}): Value {
    return this.op(type, inputs, attributes);
  }

  override ops(type: string, inputs: readonly Value[], attributes: Attributes, outputCount: number): Value[] {
    if (type === "PowerOfTwo") return [this.#powerOfTwo(inputs[0] as Value)];
    if (type === "ExponentOf") return [this.#exponentOf(inputs[0] as Value)];
    if (type === "IntegerMatMul") return [this.#product(inputs[0] as Value, inputs[1] as Value)];
    return super.ops(type, inputs, attributes, outputCount);
  }

  #powerOfTwo(n: Value): Value {
    const index = this.op("Cast", [this.math.sub(n, powerMin)], { to: onnxTypeOf("int32") });
    return this.op("Gather", [this.constant(powers), index], { axis: 0 });
  }

  #exponentOf(x: Value): Value {
    const { math } = this;
    const size = math.abs(x);
    const near = math.times(this.op("Log", [size]), Math.fround(Math.LOG2E));
    const n = math.rounded(math.held(near, -exponentMax, exponentMax));
    const scaled = math.times(size, math.powerOfTwo(math.sub(0, n)));
    const lower = math.where(math.less(scaled, 1), math.sub(n, 1), n);
    const right = math.where(math.less(scaled, 2), lower, math.add(n, 1));
    return math.held(right, -exponentMax, exponentMax);
  }

  #product(a: Value, b: Value): Value {
    const depth = a.shape.at(-1) as number;
    const [axisA, axisB] = [a.shape.length - 1, b.shape.length - 2];
    const cut = (x: Value, axis: number): Value[] => {
      const sizes = Array.from({ length: Math.ceil(depth / integerDepth) }, (_, i) =>
        Math.min(integerDepth, depth - i * integerDepth),
      );
      return sizes.length === 1 ? [x] : this.ops("Split", [x], { axis, split: sizes }, sizes.length);
    };
    const right = cut(b, axisB);
    const blocks = cut(a, axisA).map((left, i) => this.#block(this.#slices(left), this.#slices(right[i] as Value)));
    return blocks.reduce((sum, block) => this.math.add(sum, block));
  }

  /** From the lowest to the highest: x is their sum in powers of 2^7. */
  #slices(x: Value): [Value, Value, Value] {
    const { math } = this;
    const highest = math.rounded(math.times(x, slice ** -2));
    const rest = math.sub(x, math.times(highest, slice ** 2));
    const middle = math.rounded(math.times(rest, 1 / slice));
    return [math.sub(rest, math.times(middle, slice)), middle, highest];
  }

  /** Sums of products of slices whose powers of 2^7 are alike, from the lowest power on; carries between them make them digits. */
  #block(a: readonly Value[], b: readonly Value[]): Value {
    const { math } = this;
    const diagonal = (power: number): Value => {
      const pairs = [0, 1, 2].filter((i) => power - i >= 0 && power - i <= 2);
      const left = this.op(
        "Concat",
        pairs.map((i) => a[i] as Value),
        { axis: (a[0] as Value).shape.length - 1 },
      );
      const right = this.op(
        "Concat",
        pairs.map((i) => b[power - i] as Value),
        { axis: (b[0] as Value).shape.length - 2 },
      );
      return this.op("MatMul", [left, right]);
    };
    let carry: Value | undefined;
    const digits: Value[] = [];
    for (const [power, base] of [slice, slice, slice, 8].entries()) {
      const sum = carry === undefined ? diagonal(power) : math.add(diagonal(power), carry);
      // The largest whole number that is not above sum / base: half a step less, and what is in the middle of two is never met.
      carry = math.rounded(math.sub(math.times(sum, 1 / base), (base / 2 - 0.5) / base));
      digits.push(math.sub(sum, math.times(carry, base)));
    }
    const lower = digits.reduceRight((sum, digit) => math.add(math.times(sum, slice), digit));
    const upper = math.add(math.times(diagonal(4), 16), carry as Value);
    return math.add(math.times(upper, 2 ** 24), lower);
  }
}

/** Of what lower.ts gave. */
export function exactForDevice(model: GraphModel): GraphModel {
  const builder = new DeviceLowering(model.name);
  const values = builder.replay(model);
  for (const { name } of model.outputs) builder.output(values.get(name) as Value, name);
  return builder.build();
}
