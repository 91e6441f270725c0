// Elementary functions of four floats at a time, out of + - * / and exact bit operations alone: the same bits on every
// machine. Coefficients were fitted by least squares at Chebyshev nodes; functions.test.ts holds the error bounds.

import { type Code, f32x4, get, i32x4, v128 } from "../kernels/wasm.ts";
import type { FunctionBuilder } from "../kernels/wasm-module.ts";

type Vector = Code<"v128">;

const { add, sub, mul, div, min, max } = f32x4;

/** Constants of a function, each made once. */
function literals(fn: FunctionBuilder) {
  return {
    splat: (value: number) => fn.literal(f32x4.splat(value)),
    words: (value: number) => fn.literal(i32x4.splat(value)),
  };
}

/** Horner's rule, from the highest power down. */
function polynomial(fn: FunctionBuilder, x: Vector, [first, ...rest]: readonly number[]): Vector {
  const { splat } = literals(fn);
  return rest.reduce((sum, coefficient) => add(mul(sum, x), splat(coefficient)), splat(first as number));
}

/** 1.5 * 2^23: added to a small number it leaves its nearest whole number in the lowest bits. */
const roundingShift = 12582912;
const roundingShiftBits = 0x4b400000;

/** ln 2 in two parts; the first has 9 bits, so that its product with an exponent is exact. */
export const ln2High = 0.693359375;
export const ln2Low = -2.1219444005469057e-4;

/** (e^r - 1 - r) / r^2 for |r| <= ln 2 / 2. */
export const expTail = [0.0013946479844, 0.00836917240785, 0.0416662626696, 0.166665158147, 0.500000008095];

/** 2^n of four whole numbers from -126 to 127. */
const powerOfTwo = (fn: FunctionBuilder, n: Vector): Vector =>
  i32x4.shiftLeft(i32x4.add(n, literals(fn).words(127)), 23);

export function expOf(fn: FunctionBuilder, given: Vector): Vector {
  const { splat, words } = literals(fn);
  const x = fn.keep(max(min(given, splat(89)), splat(-104)));
  const shifted = fn.keep(add(mul(get(x), splat(Math.LOG2E)), splat(roundingShift)));
  const whole = fn.keep(sub(get(shifted), splat(roundingShift)));
  const r = fn.keep(sub(sub(get(x), mul(get(whole), splat(ln2High))), mul(get(whole), splat(ln2Low))));
  const n = fn.keep(i32x4.sub(get(shifted), words(roundingShiftBits)));
  // In two steps, so that the smallest results are denormal and the largest infinite.
  const half = fn.keep(i32x4.shiftRightSigned(get(n), 1));
  const square = fn.keep(mul(get(r), get(r)));
  const power = add(splat(1), add(get(r), mul(get(square), polynomial(fn, get(r), expTail))));
  return mul(mul(power, powerOfTwo(fn, get(half))), powerOfTwo(fn, i32x4.sub(get(n), get(half))));
}

/** 2 (atanh(s) - s) / s in powers of s^2, for |s| <= 0.1716. */
export const atanhTail = [2 / 9, 2 / 7, 2 / 5, 2 / 3];
const smallestNormal = 1.1754943508222875e-38;
const rootHalfBits = 0x3f3504f3;

export function logOf(fn: FunctionBuilder, given: Vector): Vector {
  const { splat, words } = literals(fn);
  const x = fn.keep(given);
  const tiny = fn.keep(f32x4.less(get(x), splat(smallestNormal)));
  const normal = fn.keep(v128.select(mul(get(x), splat(2 ** 25)), get(x), get(tiny)));
  // Counted from sqrt(1/2), the exponent bits are those of a significand in [sqrt(1/2), sqrt 2).
  const above = fn.keep(i32x4.sub(get(normal), words(rootHalfBits)));
  const exponent = i32x4.shiftRightSigned(get(above), 23);
  const k = fn.keep(sub(f32x4.ofSigned(exponent), v128.and(get(tiny), splat(25))));
  const significand = i32x4.add(v128.and(get(above), words(0x7fffff)), words(rootHalfBits));
  const f = fn.keep(sub(significand, splat(1)));
  const s = fn.keep(div(get(f), add(splat(2), get(f))));
  const square = fn.keep(mul(get(s), get(s)));
  const half = fn.keep(mul(mul(splat(0.5), get(f)), get(f)));
  const tail = mul(get(square), polynomial(fn, get(square), atanhTail));
  const low = add(mul(get(s), add(get(half), tail)), mul(get(k), splat(ln2Low)));
  const value = add(mul(get(k), splat(ln2High)), sub(get(f), sub(get(half), low)));
  const finite = v128.select(get(x), value, f32x4.equal(get(x), splat(Number.POSITIVE_INFINITY)));
  const positive = v128.select(splat(Number.NEGATIVE_INFINITY), finite, f32x4.equal(get(x), splat(0)));
  // Below 0, and for NaN, which is not at least 0.
  return v128.select(positive, splat(Number.NaN), f32x4.atLeast(get(x), splat(0)));
}

/** erf(x) / x in powers of x^2 for |x| <= 3.95, all positive so that nothing cancels. */
export const erfUpper = [
  2.013848195e-6, 0.000287082325594, 0.00389846880392, 0.0531489678346, 0.193609022034, 1.1283790226,
];
export const erfLower = [3.78342654935e-5, 0.00119344499096, 0.015233187747, 0.11541278467, 0.504913174378, 1];

export function erfOf(fn: FunctionBuilder, given: Vector): Vector {
  const { splat } = literals(fn);
  const x = fn.keep(max(min(given, splat(3.95)), splat(-3.95)));
  const square = fn.keep(mul(get(x), get(x)));
  const value = div(mul(get(x), polynomial(fn, get(square), erfUpper)), polynomial(fn, get(square), erfLower));
  return max(min(value, splat(1)), splat(-1));
}

/** (tanh(x) - x) / x^3 in powers of x^2 for |x| <= 0.625. */
export const tanhTail = [
  0.00214280435378, -0.00817709447114, 0.0217005010246, -0.0539467032956, 0.133332052247, -0.333333307671,
];

export function tanhOf(fn: FunctionBuilder, given: Vector): Vector {
  const { splat, words } = literals(fn);
  const x = fn.keep(given);
  const size = fn.keep(f32x4.abs(get(x)));
  const square = fn.keep(mul(get(x), get(x)));
  const near = fn.keep(add(get(x), mul(mul(get(x), get(square)), polynomial(fn, get(square), tanhTail))));
  const power = expOf(fn, add(get(size), get(size)));
  const far = sub(splat(1), div(splat(2), add(power, splat(1))));
  const signed = v128.or(far, v128.and(get(x), words(0x80000000)));
  return v128.select(get(near), signed, f32x4.less(get(size), splat(0.625)));
}

/** The exponential is taken of a negative number, so that it never overflows. */
export function sigmoidOf(fn: FunctionBuilder, given: Vector): Vector {
  const { splat } = literals(fn);
  const x = fn.keep(given);
  const power = fn.keep(expOf(fn, f32x4.neg(f32x4.abs(get(x)))));
  const upper = v128.select(splat(1), get(power), f32x4.atLeast(get(x), splat(0)));
  return div(upper, add(splat(1), get(power)));
}

/** x (1 + erf(x / sqrt 2)) / 2. */
export function geluOf(fn: FunctionBuilder, given: Vector): Vector {
  const { splat } = literals(fn);
  const x = fn.keep(given);
  const error = erfOf(fn, mul(get(x), splat(Math.SQRT1_2)));
  return mul(mul(get(x), splat(0.5)), add(error, splat(1)));
}
