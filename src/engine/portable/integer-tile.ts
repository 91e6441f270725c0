// The tile of products of whole numbers (graph/operators/exact/integer-matmul.ts): panels of floats are widened to doubles, in which a
// block's sums are exact in any order; each becomes a float by its upper part rounded and its lower 24 bits.

import {
  addI32,
  atLeastI32,
  type Code,
  f32x4,
  f64x2,
  get,
  i32,
  type Local,
  type Statement,
  set,
  subI32,
  v128,
  whileLoop,
} from "../kernels/wasm.ts";
import type { FunctionBuilder, ModuleBuilder } from "../kernels/wasm-module.ts";
import { tileRows } from "./gemm-pack.ts";

type Int = Local<"i32">;
type Vector = Local<"v128">;

/** Multiply-adds between two checks of the loop's end. */
const unrolled = 4;

const low = 2 ** 24;

/** The parameters are those of gemm.ts's tiles; alpha is 1. */
export function defineIntegerTile(module: ModuleBuilder, panel: number, vectors: number, hasBase: boolean): number {
  return module.define(`integerTile${4 * vectors}${hasBase ? "OntoBase" : ""}`, (fn) => {
    const pointers = Array.from({ length: 7 }, () => fn.parameter("i32"));
    fn.parameter("f32");
    const [a, b, base, baseStride, c, cStride, depth] = pointers as [Int, Int, Int, Int, Int, Int, Int];
    const [atA, atB, left] = [fn.local("i32"), fn.local("i32"), fn.local("i32")];
    const [first, second, factor] = [fn.local("v128"), fn.local("v128"), fn.local("v128")];
    const sums = Array.from({ length: tileRows }, () => [fn.local("v128"), fn.local("v128")] as const);
    const step = (k: number): Statement[] => [
      set(first, f64x2.promoteLow(v128.loadPair(get(atB), 16 * panel * k))),
      set(second, f64x2.promoteLow(v128.loadPair(get(atB), 16 * panel * k + 8))),
      ...sums.flatMap(([left, right], r) => [
        set(factor, f64x2.promoteLow(v128.loadSplat(get(atA), 4 * (k * tileRows + r)))),
        set(left, f64x2.add(get(left), f64x2.mul(get(factor), get(first)))),
        set(right, f64x2.add(get(right), f64x2.mul(get(factor), get(second)))),
      ]),
    ];
    const next = (count: number): Statement[] => [
      set(atA, addI32(get(atA), i32(4 * tileRows * count))),
      set(atB, addI32(get(atB), i32(16 * panel * count))),
      set(left, subI32(get(left), i32(count))),
    ];
    for (let vector = 0; vector < vectors; vector++) {
      fn.emit(
        ...sums.flat().map((sum) => set(sum, f64x2.splat(0))),
        set(atA, get(a)),
        set(atB, addI32(get(b), i32(16 * vector))),
        set(left, get(depth)),
        whileLoop(atLeastI32(get(left), i32(unrolled)), [
          ...Array.from({ length: unrolled }, (_, k) => step(k)).flat(),
          ...next(unrolled),
        ]),
        whileLoop(get(left), [...step(0), ...next(1)]),
        set(atA, get(c)),
        set(atB, get(base)),
      );
      for (const [left, right] of sums) {
        const block = rounded(fn, left, right);
        const onto = v128.load({ address: get(atB), memory: 0 }, 16 * vector);
        const value = fn.keep(hasBase ? f32x4.add(onto, block) : block);
        fn.emit(
          v128.store({ address: get(atA), memory: 0 }, get(value), 16 * vector),
          set(atA, addI32(get(atA), get(cStride))),
          set(atB, addI32(get(atB), get(baseStride))),
        );
      }
    }
    return undefined;
  });
}

function rounded(fn: FunctionBuilder, left: Vector, right: Vector): Code<"v128"> {
  const parts = [left, right].map((sum) => {
    const upper = fn.keep(f64x2.floor(f64x2.mul(get(sum), f64x2.splat(1 / low))));
    const rest = f64x2.sub(get(sum), f64x2.mul(get(upper), f64x2.splat(low)));
    return { upper: f64x2.demote(get(upper)), lower: f64x2.demote(rest) };
  }) as [Parts, Parts];
  const joined = (part: keyof Parts) => v128.shuffle(parts[0][part], parts[1][part], [0, 1, 4, 5]);
  return f32x4.add(f32x4.mul(joined("upper"), f32x4.splat(low)), joined("lower"));
}

interface Parts {
  readonly upper: Code<"v128">;
  readonly lower: Code<"v128">;
}
