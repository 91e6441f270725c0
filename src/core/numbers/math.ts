// Elementary functions whose last bit does not belong to the engine: built only from + - * /, sqrt and exact
// bit operations, so that they give the same double on every machine. Accurate to a few units in the last place.

import { fail } from "../errors.ts";

const bits = new DataView(new ArrayBuffer(8));

/** ln 2 in two parts; the first has 32 bits, so that its product with an exponent is exact. */
export const ln2High = 0.6931471803691238;
export const ln2Low = 1.9082149292705877e-10;
const ln2Inverse = Math.LOG2E;

/** pi / 2 in three parts; the first two have about 31 bits each. */
export const halfPi1 = 1.5707963267341256;
export const halfPi2 = 6.07710049817245e-11;
export const halfPi3 = 8.333742918520879e-20;
export const halfPiInverse = 0.6366197723675814;

/** Beyond it the reduction by multiples of pi / 2 would lose digits. */
export const angleMax = 1_000_000;

/** 2^exponent for exponents of normal numbers, -1022 to 1023. */
function powerOfTwo(exponent: number): number {
  bits.setUint32(4, 0, true);
  bits.setUint32(0, 0, true);
  bits.setInt32(4, (exponent + 1023) << 20, true);
  return bits.getFloat64(0, true);
}

/** value * 2^exponent, rounded once. */
function scale(value: number, exponent: number): number {
  if (exponent > 1023) return value * powerOfTwo(1023) * powerOfTwo(Math.min(exponent - 1023, 1023));
  if (exponent < -1022) return value * powerOfTwo(exponent + 64) * powerOfTwo(-64);
  return value * powerOfTwo(exponent);
}

function taylorCoefficients(first: number, stride: number, count: number, sign: number): number[] {
  const coefficients: number[] = [];
  let factorial = 1;
  let factor = 1;
  for (let n = 2; n <= first; n++) factorial *= n;
  for (let i = 0, n = first; i < count; i++) {
    coefficients.push(factor / factorial);
    factor *= sign;
    for (let s = 0; s < stride; s++) factorial *= ++n;
  }
  return coefficients.reverse();
}

/** Horner's rule; coefficients from the highest power down. */
function polynomial(x: number, coefficients: readonly number[]): number {
  let sum = 0;
  for (let i = 0; i < coefficients.length; i++) sum = sum * x + (coefficients[i] as number);
  return sum;
}

// (e^r - 1 - r) / r^2 for |r| <= ln2 / 2; (sin r - r) / r^3 and (cos r - 1 + r^2/2) / r^4 for |r| <= pi / 4.
const expTail = taylorCoefficients(2, 1, 13, 1);
export const sinTail = taylorCoefficients(3, 2, 8, -1).map((c) => -c);
export const cosTail = taylorCoefficients(4, 2, 8, -1);
// (atanh(s) - s) / s^3 in powers of s^2, for |s| <= 0.1716.
export const atanhTail = Array.from({ length: 12 }, (_, i) => 1 / (2 * i + 3)).reverse();

/** e^r - 1 for |r| <= ln2 / 2. */
function expm1Reduced(r: number): number {
  return r + r * r * polynomial(r, expTail);
}

export function exp(x: number): number {
  if (Number.isNaN(x)) return x;
  if (x > 709.8) return Number.POSITIVE_INFINITY;
  if (x < -745.2) return 0;
  const k = Math.round(x * ln2Inverse);
  const r = x - k * ln2High - k * ln2Low;
  return scale(1 + expm1Reduced(r), k);
}

/** e^x - 1 without cancellation near 0. */
export function expm1(x: number): number {
  if (Number.isNaN(x) || x === 0) return x;
  if (x > 709.8) return Number.POSITIVE_INFINITY;
  if (x < -40) return -1;
  const k = Math.round(x * ln2Inverse);
  const r = x - k * ln2High - k * ln2Low;
  const reduced = expm1Reduced(r);
  if (k === 0) return reduced;
  if (k > 1000) return scale(1 + reduced, k);
  const power = powerOfTwo(k);
  return power * reduced + (power - 1);
}

let frexpExponent = 0;

/** The significand of a positive finite x in [sqrt(1/2), sqrt 2); its exponent goes to `frexpExponent`. */
function significand(x: number): number {
  let exponent = 0;
  let value = x;
  if (value < 2.2250738585072014e-308) {
    value *= 18014398509481984;
    exponent = -54;
  }
  bits.setFloat64(0, value, true);
  const high = bits.getUint32(4, true);
  exponent += (high >>> 20) - 1023;
  bits.setUint32(4, (high & 0xfffff) | 0x3ff00000, true);
  let m = bits.getFloat64(0, true);
  if (m > Math.SQRT2) {
    m *= 0.5;
    exponent += 1;
  }
  frexpExponent = exponent;
  return m;
}

export function log(x: number): number {
  if (Number.isNaN(x) || x < 0) return Number.NaN;
  if (x === 0) return Number.NEGATIVE_INFINITY;
  if (x === Number.POSITIVE_INFINITY) return x;
  const f = significand(x) - 1;
  const k = frexpExponent;
  // log(1 + f) = f - f^2/2 + s (f^2/2 + tail), which keeps f exact where 2 atanh(s) would round it.
  const s = f / (2 + f);
  const square = s * s;
  const half = 0.5 * f * f;
  const tail = 2 * square * polynomial(square, atanhTail);
  return k * ln2High + (f - (half - (s * (half + tail) + k * ln2Low)));
}

/** The quadrant of x modulo 4; the remainder, in [-pi/4, pi/4], goes to `reducedAngle`. */
let reducedAngle = 0;
function quadrantOf(x: number): number {
  if (Math.abs(x) > angleMax) fail("out_of_range", `an angle of ${x} is beyond ${angleMax}: reduce it first`);
  const k = Math.round(x * halfPiInverse);
  reducedAngle = x - k * halfPi1 - k * halfPi2 - k * halfPi3;
  return k & 3;
}

function sinReduced(r: number): number {
  const square = r * r;
  return r + r * square * polynomial(square, sinTail);
}

function cosReduced(r: number): number {
  const square = r * r;
  return 1 - (0.5 * square - square * square * polynomial(square, cosTail));
}

function sinOf(quadrant: number): number {
  const value = (quadrant & 1) === 0 ? sinReduced(reducedAngle) : cosReduced(reducedAngle);
  return quadrant < 2 ? value : -value;
}

export function sin(x: number): number {
  if (!Number.isFinite(x)) return Number.NaN;
  return x === 0 ? x : sinOf(quadrantOf(x));
}

export function cos(x: number): number {
  if (!Number.isFinite(x)) return Number.NaN;
  return sinOf((quadrantOf(x) + 1) & 3);
}

export function tanh(x: number): number {
  if (Number.isNaN(x) || x === 0) return x;
  const size = Math.abs(x);
  if (size > 22) return x < 0 ? -1 : 1;
  const grown = expm1(2 * size);
  const value = grown / (grown + 2);
  return x < 0 ? -value : value;
}

/** The error function: a series of positive terms near 0, a continued fraction further out. */
export function erf(x: number): number {
  if (Number.isNaN(x) || x === 0) return x;
  const size = Math.abs(x);
  if (size > 6) return x < 0 ? -1 : 1;
  const value = size < 2 ? erfSeries(size) : 1 - erfcFraction(size);
  return x < 0 ? -value : value;
}

function erfSeries(x: number): number {
  const square = 2 * x * x;
  let term = x;
  let sum = x;
  for (let n = 3; term > sum * 1e-17; n += 2) {
    term *= square / n;
    sum += term;
  }
  return 1.1283791670955126 * exp(-x * x) * sum;
}

/** 60 levels reach double precision from x = 2 on. */
function erfcFraction(x: number): number {
  let tail = x;
  for (let level = 60; level >= 1; level--) tail = x + (0.5 * level) / tail;
  return (exp(-x * x) * 0.5641895835477563) / tail;
}

/** a * b - product, exactly (Dekker), for factors far from overflow. */
function productError(a: number, b: number, product: number): number {
  const splitA = 134217729 * a;
  const highA = splitA - (splitA - a);
  const lowA = a - highA;
  const splitB = 134217729 * b;
  const highB = splitB - (splitB - b);
  const lowB = b - highB;
  return lowA * lowB - (product - highA * highB - lowA * highB - highA * lowB);
}

/** x^y for finite x > 0, or x = 0, or any x with a whole y. The logarithm is kept in two doubles. */
export function pow(x: number, y: number): number {
  if (y === 0) return 1;
  if (Number.isNaN(x) || Number.isNaN(y)) return Number.NaN;
  if (x === 0) return y > 0 ? 0 : Number.POSITIVE_INFINITY;
  if (x < 0) {
    if (!Number.isInteger(y)) return Number.NaN;
    return y % 2 === 0 ? pow(-x, y) : -pow(-x, y);
  }
  if (!Number.isFinite(x) || !Number.isFinite(y)) return powOfInfinity(x, y);
  const f = significand(x) - 1;
  const k = frexpExponent;
  const denominator = 2 + f;
  const s = f / denominator;
  const product = s * denominator;
  // What rounding took from 2 + f counts too, else s would be off by half a unit.
  const denominatorError = f - (denominator - 2);
  const sLow = (f - product - productError(s, denominator, product) - s * denominatorError) / denominator;
  const square = s * s;
  const small = 2 * (sLow + s * square * polynomial(square, atanhTail)) + k * ln2Low;
  const large = k * ln2High;
  const sum = large + 2 * s;
  const sumError = 2 * s - (sum - large);
  const logHigh = sum + (small + sumError);
  const logLow = sum - logHigh + (small + sumError);
  const exponent = y * logHigh;
  if (exponent > 745.2) return Number.POSITIVE_INFINITY;
  if (exponent < -745.2) return 0;
  const correction = productError(y, logHigh, exponent) + y * logLow;
  const value = exp(exponent);
  return Number.isFinite(value) ? value + value * correction : value;
}

function powOfInfinity(x: number, y: number): number {
  if (x === Number.POSITIVE_INFINITY) return y > 0 ? Number.POSITIVE_INFINITY : 0;
  if (x === 1) return Number.NaN;
  return x > 1 === y > 0 ? Number.POSITIVE_INFINITY : 0;
}
