// Kernels that draw: chance, uniform and normal values with the very bits of core/numbers/random.ts. Four blocks of Philox run side by
// side; what follows them repeats the operations of core/numbers/random.ts and core/numbers/math.ts in doubles, two at a time.

import {
  atanhTail,
  cosTail,
  halfPi1,
  halfPi2,
  halfPi3,
  halfPiInverse,
  ln2High,
  ln2Low,
  sinTail,
} from "../../core/numbers/math.ts";
import { at, forBytes, integers, type Memories, numbers, pointers, splat, type Vector } from "./kernel-parts.ts";
import { f64x2, get, i32x4, i64x2, type Local, type Statement, set, splatF64, splatI32, v128 } from "./wasm.ts";
import type { FunctionBuilder, ModuleBuilder } from "./wasm-module.ts";

type L = Local<"v128">;
type Four = [L, L, L, L];

/**
 * A kernel over groups of 16 elements: `write` gets the words of four blocks, lane b of vector i being word i of block b,
 * and gives four vectors, one per block.
 */
function defineDraw(
  module: ModuleBuilder,
  memories: Memories,
  name: string,
  parameters: {
    readonly integers?: readonly string[];
    readonly floats?: readonly string[];
    readonly doubles?: readonly string[];
  },
  write: (
    builder: FunctionBuilder,
    words: Four,
    given: Record<string, Vector>,
  ) => { before?: Statement[]; vectors: Vector[] },
): void {
  module.define(name, (builder) => {
    const bytes = builder.parameter("i32");
    const { into } = pointers(builder, memories, "into");
    const p = integers(builder, "block", "blockHigh", "key0", "key1", "key2", "key3");
    const whole = integers(builder, ...(parameters.integers ?? []));
    const given: Record<string, Vector> = numbers(builder, ...(parameters.floats ?? []));
    for (const [key, local] of Object.entries(whole)) given[key] = splatI32(get(local));
    for (const key of parameters.doubles ?? []) given[key] = splatF64(get(builder.parameter("f64")));
    const x = fourLocals(builder);
    const temporary = fourLocals(builder);
    const keys = [builder.local("v128"), builder.local("v128")] as const;
    const counter = builder.local("v128");
    const round = philoxRound(x, temporary, keys);
    const begin: Statement[] = [
      set(x[0], get(counter)),
      set(x[1], splatI32(get(p.blockHigh))),
      set(x[2], splatI32(get(p.key2))),
      set(x[3], splatI32(get(p.key3))),
      set(keys[0], splatI32(get(p.key0))),
      set(keys[1], splatI32(get(p.key1))),
      set(counter, i32x4.add(get(counter), splat(4))),
    ];
    const { before = [], vectors } = write(builder, x, given);
    const loop = forBytes(builder, bytes, 64, (offset) => [
      ...begin,
      ...Array.from({ length: 10 }, () => round).flat(),
      ...before,
      ...vectors.map((vector, i) => v128.store(at(into, offset), vector, 16 * i)),
    ]);
    return [set(counter, i32x4.add(splatI32(get(p.block)), v128.words(0, 1, 2, 3))), loop];
  });
}

export function defineDraws(module: ModuleBuilder, memories: Memories): void {
  defineDraw(module, memories, "chance", { integers: ["threshold"], floats: ["keep", "drop"] }, (_, words, given) => {
    const { threshold, keep, drop } = given as Record<"threshold" | "keep" | "drop", Vector>;
    return { vectors: transposed(words).map((each) => v128.select(drop, keep, i32x4.lessUnsigned(each, threshold))) };
  });
  defineDraw(module, memories, "uniform", { doubles: ["low", "range"] }, (builder, words, given) =>
    uniform(builder, words, given as Record<"low" | "range", Vector>),
  );
  defineDraw(module, memories, "normal", { doubles: ["deviation"] }, (builder, words, given) =>
    normal(builder, words, given["deviation"] as Vector),
  );
}

function fourLocals(builder: FunctionBuilder): Four {
  return [0, 1, 2, 3].map(() => builder.local("v128")) as Four;
}

/** Words as doubles: those of the lower two blocks, then of the upper two. */
function halvesOf(words: Vector): [Vector, Vector] {
  return [f64x2.convertLowUnsigned(words), f64x2.convertLowUnsigned(v128.shuffle(words, words, [2, 3, 2, 3]))];
}

function uniform(builder: FunctionBuilder, words: Four, { low, range }: Record<"low" | "range", Vector>) {
  const blocks = fourLocals(builder);
  const before = transposed(words).map((block, i) => set(blocks[i] as L, i32x4.shiftRight(block, 8)));
  const vectors = blocks.map((block) => {
    const [first, second] = halvesOf(get(block)).map((share) =>
      f64x2.demote(f64x2.add(low, f64x2.mul(range, f64x2.div(share, f64x2.splat(16777216))))),
    ) as [Vector, Vector];
    return v128.shuffle(first, second, [0, 1, 4, 5]);
  });
  return { before, vectors };
}

/** Words 0 and 1 of a block give its first two normals, words 2 and 3 the other two. */
function normal(builder: FunctionBuilder, words: Four, deviation: Vector) {
  const before: Statement[] = [];
  const kept = (vector: Vector): Vector => {
    const local = builder.local("v128");
    before.push(set(local, vector));
    return get(local);
  };
  const pairs = [words.slice(0, 2), words.slice(2)].map(([radiusWords, angleWords]) => {
    const shares = halvesOf(get(radiusWords as L));
    const turns = halvesOf(get(angleWords as L));
    return shares.map((share, half) => {
      const unit = kept(f64x2.div(f64x2.add(share, f64x2.splat(0.5)), f64x2.splat(4294967296)));
      const root = f64x2.sqrt(f64x2.mul(f64x2.splat(-2), logarithm(kept, unit)));
      const radius = kept(f64x2.mul(deviation, root));
      const turn = f64x2.div(turns[half] as Vector, f64x2.splat(4294967296));
      const { sine, cosine } = sineAndCosine(kept, kept(f64x2.mul(f64x2.splat(6.283185307179586), turn)));
      return [cosine, sine].map((value) => kept(f64x2.demote(f64x2.mul(radius, value)))) as [Vector, Vector];
    });
  });
  const vectors = [0, 1, 2, 3].map((block) => {
    const lane = block % 2;
    const [first, second] = pairs.map((halves) => {
      const [cosines, sines] = halves[block >> 1] as [Vector, Vector];
      return v128.shuffle(cosines, sines, [lane, 4 + lane, 0, 0]);
    }) as [Vector, Vector];
    return v128.shuffle(first, second, [0, 1, 4, 5]);
  });
  return { before, vectors };
}

type Keep = (vector: Vector) => Vector;

/** Horner's rule as core/numbers/math.ts has it; its first product is 0, so that the first sum is the first coefficient. */
function polynomial(x: Vector, [first, ...others]: readonly number[]): Vector {
  const add = (sum: Vector, coefficient: number) => f64x2.add(f64x2.mul(sum, x), f64x2.splat(coefficient));
  return others.reduce(add, f64x2.splat(first as number));
}

const word64 = (high: number, low: number): Vector => v128.words(low, high, low, high);
/** A double with this in its upper bits and a small whole number below is 2^52 + that number. */
const twoTo52 = 4503599627370496;

/** log of core/numbers/math.ts for positive normal numbers. */
function logarithm(kept: Keep, x: Vector): Vector {
  const raw = kept(v128.or(v128.and(x, word64(0x000fffff, 0xffffffff)), word64(0x3ff00000, 0)));
  const isLarge = kept(f64x2.less(f64x2.splat(Math.SQRT2), raw));
  const one = v128.and(isLarge, f64x2.splat(1));
  const biased = f64x2.sub(v128.or(i64x2.shiftRight(x, 52), f64x2.splat(twoTo52)), f64x2.splat(twoTo52 + 1023));
  const k = kept(f64x2.add(biased, one));
  const m = f64x2.mul(raw, v128.select(f64x2.splat(0.5), f64x2.splat(1), isLarge));
  const f = kept(f64x2.sub(m, f64x2.splat(1)));
  const s = kept(f64x2.div(f, f64x2.add(f64x2.splat(2), f)));
  const square = kept(f64x2.mul(s, s));
  const half = kept(f64x2.mul(f64x2.mul(f64x2.splat(0.5), f), f));
  const tail = f64x2.mul(f64x2.mul(f64x2.splat(2), square), polynomial(square, atanhTail));
  const small = f64x2.add(f64x2.mul(s, f64x2.add(half, tail)), f64x2.mul(k, f64x2.splat(ln2Low)));
  return f64x2.add(f64x2.mul(k, f64x2.splat(ln2High)), f64x2.sub(f, f64x2.sub(half, small)));
}

/** sin and cos of core/numbers/math.ts for angles in [0, 2 pi]. */
function sineAndCosine(kept: Keep, x: Vector): { sine: Vector; cosine: Vector } {
  const quarters = kept(f64x2.mul(x, f64x2.splat(halfPiInverse)));
  const whole = kept(f64x2.floor(quarters));
  // Math.round: halves go up.
  const isUp = f64x2.greaterOrEqual(f64x2.sub(quarters, whole), f64x2.splat(0.5));
  const k = kept(f64x2.add(whole, v128.and(isUp, f64x2.splat(1))));
  const less = (from: Vector, part: number) => f64x2.sub(from, f64x2.mul(k, f64x2.splat(part)));
  const r = kept(less(less(less(x, halfPi1), halfPi2), halfPi3));
  const square = kept(f64x2.mul(r, r));
  const sine = kept(f64x2.add(r, f64x2.mul(f64x2.mul(r, square), polynomial(square, sinTail))));
  const fourth = f64x2.mul(f64x2.mul(square, square), polynomial(square, cosTail));
  const cosine = kept(f64x2.sub(f64x2.splat(1), f64x2.sub(f64x2.mul(f64x2.splat(0.5), square), fourth)));
  const quadrant = kept(f64x2.add(k, f64x2.splat(twoTo52)));
  const isOdd = kept(i64x2.sub(word64(0, 0), v128.and(quadrant, word64(0, 1))));
  const signOf = (number: Vector) => i64x2.shiftLeft(v128.and(number, word64(0, 2)), 62);
  return {
    sine: v128.xor(v128.select(cosine, sine, isOdd), signOf(quadrant)),
    cosine: v128.xor(v128.select(sine, cosine, isOdd), signOf(i64x2.add(quadrant, word64(0, 1)))),
  };
}

function philoxRound(x: Four, t: Four, keys: readonly [L, L]): Statement[] {
  const multiplier0 = splat(0xd2511f53);
  const multiplier1 = splat(0xcd9e8d57);
  const lows = (a: L, b: L) => v128.shuffle(get(a), get(b), [0, 2, 4, 6]);
  const highs = (a: L, b: L) => v128.shuffle(get(a), get(b), [1, 3, 5, 7]);
  return [
    set(t[0], i64x2.productLow(get(x[0]), multiplier0)),
    set(t[1], i64x2.productHigh(get(x[0]), multiplier0)),
    set(t[2], i64x2.productLow(get(x[2]), multiplier1)),
    set(t[3], i64x2.productHigh(get(x[2]), multiplier1)),
    set(x[0], v128.xor(v128.xor(highs(t[2], t[3]), get(x[1])), get(keys[0]))),
    set(x[1], lows(t[2], t[3])),
    set(x[2], v128.xor(v128.xor(highs(t[0], t[1]), get(x[3])), get(keys[1]))),
    set(x[3], lows(t[0], t[1])),
    set(keys[0], i32x4.add(get(keys[0]), splat(0x9e3779b9))),
    set(keys[1], i32x4.add(get(keys[1]), splat(0xbb67ae85))),
  ];
}

/** Lane b of vector i is word i of block b; what comes out holds one block per vector. */
function transposed(x: Four): Vector[] {
  const low01 = v128.shuffle(get(x[0]), get(x[1]), [0, 4, 1, 5]);
  const low23 = v128.shuffle(get(x[2]), get(x[3]), [0, 4, 1, 5]);
  const high01 = v128.shuffle(get(x[0]), get(x[1]), [2, 6, 3, 7]);
  const high23 = v128.shuffle(get(x[2]), get(x[3]), [2, 6, 3, 7]);
  return [
    v128.shuffle(low01, low23, [0, 1, 4, 5]),
    v128.shuffle(low01, low23, [2, 3, 6, 7]),
    v128.shuffle(high01, high23, [0, 1, 4, 5]),
    v128.shuffle(high01, high23, [2, 3, 6, 7]),
  ];
}
