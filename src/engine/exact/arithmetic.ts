// Sums, differences and products of floats as nodes of a graph, and the elementary functions made of them. Every node is one operation
// that all engines round alike, and no engine fuses two of them; values are never denormal and zeros never negative, since
// engines treat those as they like.

import type { Value } from "../../graph/builder.ts";
import type { Attributes } from "../../graph/operators/operator.ts";
import { atanhTail, erfLower, erfUpper, expTail, ln2High, ln2Low, tanhTail } from "../portable/functions.ts";

/** Where nodes are added as they stand. */
export interface RawBuilder {
  scalar(value: number): Value;
  raw(type: string, inputs: readonly Value[], attributes?: Attributes): Value;
}

type Operand = Value | number;

/** Products below it are 0. What is not is a multiple of 2^-123, and so is every sum: none is ever denormal. */
const smallest = 2 ** -100;

/** 1.5 * 2^23: added and taken away again it rounds what is below 2^22 to the nearest whole number, to the even one in the middle. */
const roundingShift = 12582912;

export class Arithmetic {
  readonly #builder: RawBuilder;

  constructor(builder: RawBuilder) {
    this.#builder = builder;
  }

  #op(type: string, ...operands: readonly Operand[]): Value {
    const values = operands.map((each) => (typeof each === "number" ? this.#builder.scalar(each) : each));
    return this.#builder.raw(type, values);
  }

  add = (a: Operand, b: Operand) => this.#op("Add", a, b);
  sub = (a: Operand, b: Operand) => this.#op("Sub", a, b);
  /** Only where no result can be denormal, or where one is lost in a sum. */
  times = (a: Operand, b: Operand) => this.#op("Mul", a, b);
  abs = (x: Operand) => this.#op("Abs", x);
  less = (a: Operand, b: Operand) => this.#op("Less", a, b);
  greater = (a: Operand, b: Operand) => this.#op("Greater", a, b);
  where = (condition: Value, a: Operand, b: Operand) => this.#op("Where", condition, a, b);
  powerOfTwo = (n: Operand) => this.#op("PowerOfTwo", n);
  exponentOf = (x: Operand) => this.#op("ExponentOf", x);

  /** Without denormals and negative zeros. */
  plain(x: Value): Value {
    return this.where(this.less(this.abs(x), smallest), 0, x);
  }

  mul(a: Operand, b: Operand): Value {
    return this.plain(this.times(a, b));
  }

  negated(x: Value): Value {
    return this.sub(0, x);
  }

  /** NaN becomes `high`. */
  held(x: Value, low: number, high: number): Value {
    const below = this.where(this.less(x, high), x, high);
    return this.where(this.greater(below, low), below, low);
  }

  /** The nearest whole number of what is below 2^22. */
  rounded(x: Value): Value {
    return this.sub(this.add(x, roundingShift), roundingShift);
  }

  #polynomial(x: Value, [first, ...rest]: readonly number[]): Value {
    return rest.reduce<Operand>(
      (sum, coefficient) => this.add(this.times(sum, x), coefficient),
      first as number,
    ) as Value;
  }

  /** 1 / m for m from 0.85 to 2: a line, then Newton's steps. */
  #inverse(m: Value): Value {
    let y = this.sub(24 / 17, this.times(m, 8 / 17));
    for (let step = 0; step < 4; step++) y = this.add(y, this.times(y, this.sub(1, this.times(m, y))));
    return y;
  }

  /** Infinite for 0. */
  reciprocal(x: Value): Value {
    const size = this.abs(x);
    const n = this.exponentOf(x);
    const back = this.powerOfTwo(this.sub(0, n));
    const inverse = this.times(this.#inverse(this.times(size, back)), back);
    const signed = this.where(this.less(x, 0), this.sub(0, inverse), inverse);
    return this.plain(this.where(this.less(size, smallest), Number.POSITIVE_INFINITY, signed));
  }

  divided(a: Operand, b: Value): Value {
    return this.mul(a, this.reciprocal(b));
  }

  /** Of what is at least 0. */
  sqrt(x: Value): Value {
    const half = this.rounded(this.sub(this.times(this.exponentOf(x), 0.5), 0.25));
    const back = this.powerOfTwo(this.sub(0, half));
    const m = this.times(this.times(x, back), back);
    let y = this.sub(1.17, this.times(m, 0.18));
    for (let step = 0; step < 4; step++)
      y = this.times(y, this.sub(1.5, this.times(0.5, this.times(this.times(m, y), y))));
    const root = this.times(m, y);
    const better = this.add(root, this.times(this.times(y, 0.5), this.sub(m, this.times(root, root))));
    return this.plain(this.times(better, this.powerOfTwo(half)));
  }

  /** Held at e^88, which is finite. */
  exp(given: Value): Value {
    const x = this.held(given, -87, 88);
    const n = this.rounded(this.times(x, Math.fround(Math.LOG2E)));
    const r = this.sub(this.sub(x, this.times(n, ln2High)), this.times(n, Math.fround(ln2Low)));
    const tail = this.times(this.times(r, r), this.#polynomial(r, expTail));
    return this.plain(this.times(this.add(this.add(tail, r), 1), this.powerOfTwo(n)));
  }

  /** -Infinity for what is not above 0. */
  log(x: Value): Value {
    const n = this.exponentOf(x);
    const m = this.times(x, this.powerOfTwo(this.sub(0, n)));
    const isLarge = this.greater(m, Math.fround(Math.SQRT2));
    const k = this.where(isLarge, this.add(n, 1), n);
    const f = this.sub(this.where(isLarge, this.times(m, 0.5), m), 1);
    const s = this.times(this.times(f, 0.5), this.#inverse(this.times(this.add(f, 2), 0.5)));
    const square = this.times(s, s);
    const half = this.times(this.times(f, 0.5), f);
    const tail = this.times(square, this.#polynomial(square, atanhTail));
    const low = this.add(this.times(s, this.add(half, tail)), this.times(k, Math.fround(ln2Low)));
    const value = this.add(this.times(k, ln2High), this.sub(f, this.sub(half, low)));
    return this.where(this.greater(x, 0), this.plain(value), Number.NEGATIVE_INFINITY);
  }

  erf(given: Value): Value {
    const x = this.held(given, -3.95, 3.95);
    const square = this.times(x, x);
    const value = this.divided(this.times(x, this.#polynomial(square, erfUpper)), this.#polynomial(square, erfLower));
    return this.held(value, -1, 1);
  }

  tanh(x: Value): Value {
    const size = this.abs(x);
    const square = this.times(x, x);
    const near = this.add(x, this.times(this.times(x, square), this.#polynomial(square, tanhTail)));
    const power = this.exp(this.times(size, -2));
    const far = this.times(this.sub(1, power), this.#inverse(this.add(power, 1)));
    const signed = this.where(this.less(x, 0), this.sub(0, far), far);
    return this.plain(this.where(this.less(size, 0.625), near, signed));
  }

  sigmoid(x: Value): Value {
    const power = this.exp(this.sub(0, this.abs(x)));
    return this.mul(this.where(this.less(x, 0), power, 1), this.#inverse(this.add(power, 1)));
  }
}
