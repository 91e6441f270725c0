// Arithmetic, comparisons and logic of ONNX files, element by element. Steps (floor, round, ..) go through whole numbers,
// which carry no gradient: their slope is 0, as it should be.

import type { Value } from "../operators/operator.ts";
import type { Site, Translation, Translations } from "./site.ts";

/** From here on a float32 has no digits behind the point. */
const wholeFrom = 2 ** 23;

/** Toward zero; numbers too large for int32 are whole already. */
export function truncate(site: Site, x: Value): Value {
  const small = site.less(site.op("Abs", [x]), wholeFrom);
  const whole = site.cast(site.cast(site.where(small, x, 0), "int32"), x.dtype);
  return site.where(small, whole, x);
}

export function floor(site: Site, x: Value): Value {
  const whole = truncate(site, x);
  return site.where(site.greater(whole, x), site.sub(whole, 1), whole);
}

/** Halves go to the even neighbour. */
function round(site: Site, x: Value): Value {
  const down = floor(site, x);
  const rest = site.sub(x, down);
  const odd = site.greater(site.sub(down, site.mul(floor(site, site.mul(down, 0.5)), 2)), 0.5);
  const tie = site.where(odd, site.add(down, 1), down);
  const near = site.where(site.greater(rest, 0.5), site.add(down, 1), tie);
  return site.where(site.less(rest, 0.5), down, near);
}

/** Odd powers up to the 11th after reduction to a quarter turn: an error below 1e-7. */
function sine(site: Site, x: Value): Value {
  const turns = floor(site, site.add(site.mul(x, 1 / (2 * Math.PI)), 0.5));
  const within = site.sub(x, site.mul(turns, 2 * Math.PI));
  const upper = site.where(site.greater(within, Math.PI / 2), site.sub(site.scalar(Math.PI), within), within);
  const angle = site.where(site.less(within, -Math.PI / 2), site.sub(site.scalar(-Math.PI), within), upper);
  const square = site.mul(angle, angle);
  const [highest, ...lower] = [-1 / 39916800, 1 / 362880, -1 / 5040, 1 / 120, -1 / 6, 1] as const;
  const start = site.mul(square, highest);
  const sum = lower.reduce<Value>((value, term, i) => site.add(i === 0 ? value : site.mul(value, square), term), start);
  return site.mul(angle, sum);
}

const cosine = (site: Site, x: Value) => sine(site, site.add(x, Math.PI / 2));

function power(site: Site, x: Value, exponent: number): Value {
  return site.op("Pow", [x], { exponent });
}

/** Larger exponents would be long products for nobody's use. */
const productMax = 8;

const pow: Translation = (site) => {
  const [x, y] = [site.input(0), site.input(1)];
  const exponent = y.constant?.data.length === 1 ? Number(y.constant.data[0]) : undefined;
  if (exponent !== undefined && y.shape.length <= x.shape.length) {
    const isProduct = Number.isInteger(exponent) && Math.abs(exponent) <= productMax;
    if (isProduct || Math.abs(exponent) === 0.5) return power(site, x, exponent);
    if (Math.abs(exponent) === 1.5) {
      const root = site.mul(x, power(site, x, 0.5));
      return exponent > 0 ? root : site.op("Reciprocal", [root]);
    }
  }
  // x^y = exp(y log x), which is not a number for negative x, as it should be where y is no whole number.
  if (exponent === undefined ? x.constant === undefined : Number.isInteger(exponent))
    site.refuse(
      `its exponent must be one constant up to ${productMax}, or its base a constant; here it is ${exponent ?? "computed"}`,
    );
  return site.op("Exp", [site.mul(site.op("Log", [x]), site.cast(y, x.dtype))]);
};

/** Whole numbers take the sign of the divisor, floats with fmod = 1 that of the dividend. */
const mod: Translation = (site) => {
  const [a, b] = [site.input(0), site.input(1)];
  const likeC = site.number("fmod", 0) === 1;
  const quotient = site.isFloat(a) ? truncate(site, site.div(a, b)) : site.div(a, b);
  const rest = site.sub(a, site.mul(quotient, b));
  if (likeC) return rest;
  const apart = site.less(site.mul(rest, b), 0);
  return site.where(apart, site.add(rest, b), rest);
};

function fold(combine: (site: Site, a: Value, b: Value) => Value): Translation {
  return (site) =>
    site.inputs.slice(1).reduce<Value>((all, _, i) => combine(site, all, site.input(i + 1)), site.input(0));
}

const asNumber = (site: Site, x: Value) => site.cast(x, "float32");
export const not = (site: Site, x: Value) => site.less(asNumber(site, x), 0.5);

/** ONNX' bools as numbers 0 and 1. */
function logic(combine: (site: Site, a: Value, b: Value) => Value): Translation {
  return (site) => site.greater(combine(site, asNumber(site, site.input(0)), asNumber(site, site.input(1))), 0.5);
}

/** e^x and e^-x, halved. */
function halves(site: Site): [Value, Value] {
  const x = site.input(0);
  return [site.mul(site.op("Exp", [x]), 0.5), site.mul(site.op("Exp", [site.op("Neg", [x])]), 0.5)];
}

export const arithmetic: Translations = {
  Pow: pow,
  Mod: mod,
  Floor: (site) => floor(site, site.input(0)),
  Ceil: (site) => site.op("Neg", [floor(site, site.op("Neg", [site.input(0)]))]),
  Round: (site) => round(site, site.input(0)),
  Sign: (site) => {
    const x = site.input(0);
    const [below, zero, above] = [-1, 0, 1].map((value) => site.scalar(value, x.dtype)) as [Value, Value, Value];
    return site.where(site.greater(x, 0), above, site.where(site.less(x, 0), below, zero));
  },
  Sin: (site) => sine(site, site.input(0)),
  Cos: (site) => cosine(site, site.input(0)),
  Tan: (site) => site.div(sine(site, site.input(0)), cosine(site, site.input(0))),
  Sinh: (site) => site.sub(...halves(site)),
  Cosh: (site) => site.add(...halves(site)),
  Max: fold((site, a, b) => site.where(site.greater(a, b), a, b)),
  Min: fold((site, a, b) => site.where(site.less(a, b), a, b)),
  Sum: fold((site, a, b) => site.add(a, b)),
  Mean: (site) => site.mul(fold((at, a, b) => at.add(a, b))(site) as Value, 1 / site.inputs.length),
  GreaterOrEqual: (site) => not(site, site.less(site.input(0), site.input(1))),
  LessOrEqual: (site) => not(site, site.greater(site.input(0), site.input(1))),
  Not: (site) => not(site, site.input(0)),
  And: logic((site, a, b) => site.mul(a, b)),
  Or: logic((site, a, b) => site.add(a, b)),
  Xor: logic((site, a, b) => site.op("Abs", [site.sub(a, b)])),
  IsNaN: (site) => not(site, site.op("Equal", [site.input(0), site.input(0)])),
  IsInf: (site) => {
    const x = site.input(0);
    const [negative, positive] = [site.number("detect_negative", 1), site.number("detect_positive", 1)];
    const above = site.greater(x, positive === 1 ? 3.4028234663852886e38 : Number.POSITIVE_INFINITY);
    const below = site.less(x, negative === 1 ? -3.4028234663852886e38 : Number.NEGATIVE_INFINITY);
    return site.greater(site.add(asNumber(site, above), asNumber(site, below)), 0.5);
  },
  CastLike: (site) => {
    site.ignore("saturate");
    return site.cast(site.input(0), site.input(1).dtype);
  },
};
