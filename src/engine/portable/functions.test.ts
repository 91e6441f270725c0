import { ok, strictEqual } from "node:assert/strict";
import { describe, test } from "node:test";
import * as math from "../../core/numbers/math.ts";
import { geluOf as geluOfNumber } from "../../graph/operators/activations/gelu.ts";
import { sigmoidOf as sigmoidOfNumber } from "../../graph/operators/activations/sigmoid.ts";
import { sharedMemory } from "../kernels/kernels.ts";
import { type Code, get, v128 } from "../kernels/wasm.ts";
import { type FunctionBuilder, ModuleBuilder } from "../kernels/wasm-module.ts";
import { erfOf, expOf, geluOf, logOf, sigmoidOf, tanhOf } from "./functions.ts";
import { eachQuad, loadQuad } from "./loops.ts";

type Function = (fn: FunctionBuilder, x: Code<"v128">) => Code<"v128">;

const elements = 1 << 16;

/** The function of many floats at once. */
function compiled(apply: Function): (x: Float32Array) => Float32Array {
  const memory = sharedMemory(4 * elements);
  const module = new ModuleBuilder(1);
  module.define("run", (fn) => {
    const start = fn.parameter("i32");
    eachQuad(fn, elements, (quad) => {
      const value = apply(fn, loadQuad(fn, start, quad, 4, "float32"));
      const kept = fn.keep(value);
      fn.emit(v128.store({ address: get(quad.offset), memory: 0 }, get(kept)));
    });
    return undefined;
  });
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(module.bytes()), { env: { memory0: memory } });
  const data = new Float32Array(memory.buffer, 0, elements);
  return (x) => {
    data.set(x);
    (exports["run"] as (start: number) => void)(0);
    return data.slice(0, x.length);
  };
}

/** The distance between neighbouring floats around a value. */
function unit(value: number): number {
  const size = Math.max(Math.abs(value), 2 ** -126);
  return 2 ** (Math.floor(Math.log2(size)) - 23);
}

interface Bound {
  readonly apply: Function;
  readonly exact: (x: number) => number;
  readonly from: number;
  readonly to: number;
  /** In units of the last place of the result, or of 1 where results come close to 0 by cancellation. */
  readonly units: number;
  readonly ofOne?: boolean;
}

const bounds: Record<string, Bound> = {
  exp: { apply: expOf, exact: math.exp, from: -104, to: 88.7, units: 1.5 },
  log: { apply: logOf, exact: math.log, from: 1e-45, to: 100, units: 1.5 },
  "log near 1": { apply: logOf, exact: math.log, from: 0.5, to: 2, units: 1.5 },
  erf: { apply: erfOf, exact: math.erf, from: -6, to: 6, units: 6 },
  tanh: { apply: tanhOf, exact: math.tanh, from: -12, to: 12, units: 2 },
  sigmoid: { apply: sigmoidOf, exact: sigmoidOfNumber, from: -100, to: 100, units: 3 },
  gelu: { apply: geluOf, exact: geluOfNumber, from: -8, to: 8, units: 6, ofOne: true },
};

describe("elementary functions stay within their bounds of core/numbers/math.ts", () => {
  for (const [name, { apply, exact, from, to, units, ofOne }] of Object.entries(bounds))
    test(`${name}: ${units} units in the last place`, () => {
      const x = Float32Array.from({ length: elements }, (_, i) => from + ((to - from) * i) / (elements - 1));
      const y = compiled(apply)(x);
      let worst = 0;
      let at = 0;
      for (const [i, value] of x.entries()) {
        const expected = exact(value);
        const error =
          Math.abs((y[i] as number) - expected) / (ofOne ? unit(Math.max(1, Math.abs(expected))) : unit(expected));
        if (error > worst) [worst, at] = [error, value];
      }
      ok(worst <= units, `${worst.toFixed(2)} units at ${at}`);
    });
});

test("infinities, zeros and NaN have the values that limits have", () => {
  const cases: [Function, number, number][] = [
    [expOf, Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY],
    [expOf, Number.NEGATIVE_INFINITY, 0],
    [expOf, 0, 1],
    [logOf, 0, Number.NEGATIVE_INFINITY],
    [logOf, 1, 0],
    [logOf, Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY],
    [logOf, -1, Number.NaN],
    [erfOf, Number.POSITIVE_INFINITY, 1],
    [tanhOf, Number.NEGATIVE_INFINITY, -1],
    [sigmoidOf, Number.NEGATIVE_INFINITY, 0],
    [sigmoidOf, Number.POSITIVE_INFINITY, 1],
    ...[expOf, logOf, erfOf, tanhOf, sigmoidOf, geluOf].map(
      (apply) => [apply, Number.NaN, Number.NaN] as [Function, number, number],
    ),
  ];
  for (const [apply, x, y] of cases) strictEqual(compiled(apply)(Float32Array.of(x))[0], y);
});
