// Elementary functions in WGSL, with the polynomials of the portable engine: those of GPUs differ by many last bits, and some drivers'
// tanh overflows. Shaders hold the functions that they call, and those that these call.

import { atanhTail, erfLower, erfUpper, expTail, ln2High, ln2Low, tanhTail } from "../portable/functions.ts";

const float = (value: number) => `${value < 0 ? "-" : ""}${Math.fround(Math.abs(value))}f`;

/** Horner's rule, from the highest power down. */
function polynomial(x: string, [first, ...rest]: readonly number[]): string {
  return rest.reduce((sum, coefficient) => `(${sum} * ${x} + ${float(coefficient)})`, float(first as number));
}

/** Each after those that it calls. */
const library: readonly (readonly [name: string, code: string])[] = [
  [
    "exponential",
    `fn exponential(given: f32) -> f32 {
let x = clamp(given, -104f, 89f);
let whole = round(x * ${float(Math.LOG2E)});
let r = (x - whole * ${float(ln2High)}) - whole * ${float(ln2Low)};
let n = i32(whole);
let half = n >> 1u;
let power = 1f + (r + (r * r) * ${polynomial("r", expTail)});
return power * bitcast<f32>((half + 127) << 23u) * bitcast<f32>((n - half + 127) << 23u);
}`,
  ],
  [
    "logarithm",
    `fn logarithm(x: f32) -> f32 {
let tiny = x < 1.1754943508222875e-38f;
let above = bitcast<i32>(select(x, x * 33554432f, tiny)) - 0x3f3504f3;
let k = f32(above >> 23u) - select(0f, 25f, tiny);
let f = bitcast<f32>((above & 0x7fffff) + 0x3f3504f3) - 1f;
let s = f / (2f + f);
let q = s * s;
let half = 0.5f * f * f;
let low = s * (half + q * ${polynomial("q", atanhTail)}) + k * ${float(ln2Low)};
return k * ${float(ln2High)} + (f - (half - low));
}`,
  ],
  [
    "error_of",
    `fn error_of(given: f32) -> f32 {
let x = clamp(given, -3.95f, 3.95f);
let q = x * x;
return clamp(x * ${polynomial("q", erfUpper)} / ${polynomial("q", erfLower)}, -1f, 1f);
}`,
  ],
  [
    "hyperbolic",
    `fn hyperbolic(x: f32) -> f32 {
let q = x * x;
let near = x + x * q * ${polynomial("q", tanhTail)};
let far = 1f - 2f / (exponential(abs(x) + abs(x)) + 1f);
return select(sign(x) * far, near, abs(x) < 0.625f);
}`,
  ],
  [
    "logistic",
    `fn logistic(x: f32) -> f32 {
let power = exponential(-abs(x));
return select(power, 1f, x >= 0f) / (1f + power);
}`,
  ],
];

/** The library's functions that a text calls. */
export function functionsIn(text: string): string[] {
  const wanted: string[] = [];
  let seen = text;
  for (const [name, code] of library.toReversed())
    if (seen.includes(`${name}(`)) {
      wanted.unshift(code);
      seen += code;
    }
  return wanted;
}
