// The SIMD kernels themselves, written with the emitter of wasm.ts. Each handles a whole number of groups of 16
// floats; no fused multiply-add and no relaxed instruction, so that the bits are the same everywhere.

import { defineDraws } from "./kernel-draws.ts";
import {
  at,
  forBytes,
  keep,
  type Memories,
  numbers,
  type Pointer,
  pointers,
  splat,
  type Vector,
} from "./kernel-parts.ts";
import {
  f32x4,
  f64x2,
  type Global,
  get,
  getGlobal,
  i32x4,
  i64x2,
  type Local,
  type Statement,
  set,
  setGlobal,
  v128,
} from "./wasm.ts";
import { type FunctionBuilder, ModuleBuilder } from "./wasm-module.ts";

/** Every kernel's length is a multiple of it. */
export const groupElements = 16;

/** The multiplier of the digest: odd, with its bits well spread (the golden ratio's fraction). */
export const digestMultiplier = 0x9e3779b97f4a7c15n;

/** adam: `decay` joins the gradient (0 for AdamW), `shrink` multiplies the weights first (1 for Adam). */
function defineAdam(module: ModuleBuilder, memories: Memories): void {
  module.define("adam", (builder) => {
    const bytes = builder.parameter("i32");
    const p = pointers(builder, memories, "weights", "gradient", "first", "second");
    const raw = numbers(
      builder,
      "beta1",
      "rest1",
      "beta2",
      "rest2",
      "step",
      "root",
      "epsilon",
      "decay",
      "shrink",
      "scale",
    );
    const before: Statement[] = [];
    const n = keep(builder, raw, before) as typeof raw;
    const [w, g, m, v] = [0, 1, 2, 3].map(() => builder.local("v128")) as [L, L, L, L];
    const loop = forBytes(builder, bytes, 16, (offset) => [
      set(w, v128.load(at(p.weights, offset))),
      set(g, f32x4.add(f32x4.mul(v128.load(at(p.gradient, offset)), n.scale), f32x4.mul(get(w), n.decay))),
      set(m, f32x4.add(f32x4.mul(v128.load(at(p.first, offset)), n.beta1), f32x4.mul(get(g), n.rest1))),
      set(
        v,
        f32x4.add(f32x4.mul(v128.load(at(p.second, offset)), n.beta2), f32x4.mul(f32x4.mul(get(g), get(g)), n.rest2)),
      ),
      v128.store(at(p.first, offset), get(m)),
      v128.store(at(p.second, offset), get(v)),
      v128.store(
        at(p.weights, offset),
        f32x4.sub(
          f32x4.mul(get(w), n.shrink),
          f32x4.div(f32x4.mul(get(m), n.step), f32x4.add(f32x4.mul(f32x4.sqrt(get(v)), n.root), n.epsilon)),
        ),
      ),
    ]);
    return [...before, loop];
  });
}

type L = Local<"v128">;

function defineSgd(module: ModuleBuilder, memories: Memories): void {
  for (const withVelocity of [true, false])
    module.define(withVelocity ? "sgdMomentum" : "sgd", (builder) => {
      const bytes = builder.parameter("i32");
      const p = pointers(builder, memories, "weights", "gradient", "velocity");
      const raw = numbers(builder, "rate", "momentum", "decay", "scale");
      const before: Statement[] = [];
      const n = keep(builder, raw, before) as typeof raw;
      const [w, g] = [builder.local("v128"), builder.local("v128")];
      const velocity = (offset: Local<"i32">): Statement[] => [
        set(g, f32x4.add(f32x4.mul(v128.load(at(p.velocity, offset)), n.momentum), get(g))),
        v128.store(at(p.velocity, offset), get(g)),
      ];
      const loop = forBytes(builder, bytes, 16, (offset) => [
        set(w, v128.load(at(p.weights, offset))),
        set(g, f32x4.add(f32x4.mul(v128.load(at(p.gradient, offset)), n.scale), f32x4.mul(get(w), n.decay))),
        ...(withVelocity ? velocity(offset) : []),
        v128.store(at(p.weights, offset), f32x4.sub(get(w), f32x4.mul(get(g), n.rate))),
      ]);
      return [...before, loop];
    });
}

function defineElementwise(module: ModuleBuilder, memories: Memories): void {
  module.define("accumulate", (builder) => {
    const bytes = builder.parameter("i32");
    const p = pointers(builder, memories, "into", "add");
    return [
      forBytes(builder, bytes, 16, (offset) => [
        v128.store(at(p.into, offset), f32x4.add(v128.load(at(p.into, offset)), v128.load(at(p.add, offset)))),
      ]),
    ];
  });
  module.define("roundBfloat16", (builder) => {
    const bytes = builder.parameter("i32");
    const p = pointers(builder, memories, "into", "of");
    const x = builder.local("v128");
    const odd = v128.and(i32x4.shiftRight(get(x), 16), splat(1));
    const rounded = v128.and(i32x4.add(i32x4.add(get(x), splat(0x7fff)), odd), splat(0xffff0000));
    const notNumber = i32x4.greaterUnsigned(v128.and(get(x), splat(0x7fffffff)), splat(0x7f800000));
    return [
      forBytes(builder, bytes, 16, (offset) => [
        set(x, v128.load(at(p.of, offset))),
        v128.store(at(p.into, offset), v128.select(splat(0x7fc00000), rounded, notNumber)),
      ]),
    ];
  });
  module.define("roundFloat16", (builder) => {
    const bytes = builder.parameter("i32");
    const p = pointers(builder, memories, "into", "of");
    return [forBytes(builder, bytes, 16, roundFloat16(builder, p.into, p.of))];
  });
}

const halfWord = 0x3f000000;

function roundFloat16(builder: FunctionBuilder, into: Pointer, of: Pointer) {
  const [x, size] = [builder.local("v128"), builder.local("v128")];
  const odd = v128.and(i32x4.shiftRight(get(size), 13), splat(1));
  const normal = v128.and(i32x4.add(i32x4.add(get(size), splat(0xfff)), odd), splat(0xffffe000));
  // Around 0.5 floats are 2^-24 apart, as the subnormal halves are: adding 0.5 rounds to them.
  const subnormal = f32x4.sub(f32x4.add(get(size), splat(halfWord)), splat(halfWord));
  const isSubnormal = i32x4.lessUnsigned(get(size), splat(0x38800000));
  const isTooLarge = i32x4.greaterUnsigned(get(size), splat(0x477fefff));
  const notNumber = i32x4.greaterUnsigned(get(size), splat(0x7f800000));
  const rounded = v128.select(subnormal, normal, isSubnormal);
  const bounded = v128.select(splat(0x7f800000), rounded, isTooLarge);
  return (offset: Local<"i32">): Statement[] => [
    set(x, v128.load(at(of, offset))),
    set(size, v128.and(get(x), splat(0x7fffffff))),
    v128.store(
      at(into, offset),
      v128.or(v128.select(splat(0x7fc00000), bounded, notNumber), v128.and(get(x), splat(0x80000000))),
    ),
  ];
}

/** Lane l sums the elements with index l modulo 4, in doubles. */
function defineSums(module: ModuleBuilder, memories: Memories): void {
  const lanes = [0, 1, 2, 3].map((lane) => module.global(`sum${lane}`, "f64"));
  const define = (name: string, term: (x: Vector) => Vector) =>
    module.define(name, (builder) => {
      const bytes = builder.parameter("i32");
      const p = pointers(builder, memories, "of");
      const [low, high, x] = [builder.local("v128"), builder.local("v128"), builder.local("v128")];
      const upper = v128.shuffle(get(x), get(x), [2, 3, 2, 3]);
      const read = (a: number, b: number) =>
        f64x2.replaceLane(f64x2.replaceLane(splat(0), 0, getGlobal(lanes[a] as F)), 1, getGlobal(lanes[b] as F));
      const loop = forBytes(builder, bytes, 16, (offset) => [
        set(x, v128.load(at(p.of, offset))),
        set(low, f64x2.add(get(low), term(f64x2.promoteLow(get(x))))),
        set(high, f64x2.add(get(high), term(f64x2.promoteLow(upper)))),
      ]);
      const write = lanes.map((lane, i) => setGlobal(lane, f64x2.lane(get(i < 2 ? low : high), i % 2)));
      return [set(low, read(0, 1)), set(high, read(2, 3)), loop, ...write];
    });
  define("sumOfSquares", (x) => f64x2.mul(x, x));
}

type F = Global<"f64">;
type I = Global<"i64">;

/** x - x is 0 for finite x and NaN otherwise: any NaN stays in the lane that saw it. */
function defineFinite(module: ModuleBuilder, memories: Memories): void {
  const check = module.global("finite0", "f64");
  module.define("finite", (builder) => {
    const bytes = builder.parameter("i32");
    const p = pointers(builder, memories, "of");
    const [sum, x] = [builder.local("v128"), builder.local("v128")];
    const loop = forBytes(builder, bytes, 16, (offset) => [
      set(x, v128.load(at(p.of, offset))),
      set(sum, v128.or(get(sum), f32x4.sub(get(x), get(x)))),
    ]);
    const upper = v128.shuffle(get(sum), get(sum), [2, 3, 2, 3]);
    const both = f64x2.promoteLow(v128.or(get(sum), upper));
    const total = f64x2.add(both, v128.shuffle(both, both, [2, 3, 2, 3]));
    return [loop, setGlobal(check, f64x2.lane(total, 0))];
  });
}

/**
 * Eight lanes of 64 bits; a group of 64 bytes feeds each lane once: lane = (lane ^ data) * multiplier, then the upper half
 * is folded into the lower. Every step can be undone, so that a single changed bit always changes its lane.
 */
function defineDigest(module: ModuleBuilder, memories: Memories): void {
  const lanes = Array.from({ length: 8 }, (_, lane) => module.global(`digest${lane}`, "i64"));
  const low = Number(digestMultiplier & 0xffffffffn);
  const high = Number(digestMultiplier >> 32n);
  module.define("digest", (builder) => {
    const bytes = builder.parameter("i32");
    const p = pointers(builder, memories, "of");
    const state = [0, 1, 2, 3].map(() => builder.local("v128"));
    const load = state.map((vector, i) => {
      const first = i64x2.replaceLane(splat(0), 0, getGlobal(lanes[2 * i] as I));
      return set(vector, i64x2.replaceLane(first, 1, getGlobal(lanes[2 * i + 1] as I)));
    });
    const loop = forBytes(builder, bytes, 64, (offset) =>
      state.flatMap((vector, i) => [
        set(
          vector,
          i64x2.mul(v128.xor(get(vector), v128.load(at(p.of, offset), 16 * i)), v128.words(low, high, low, high)),
        ),
        set(vector, v128.xor(get(vector), i64x2.shiftRight(get(vector), 32))),
      ]),
    );
    const store = lanes.map((lane, i) => setGlobal(lane, i64x2.lane(get(state[i >> 1] as L), i % 2)));
    return [...load, loop, ...store];
  });
}

/** The module's bytes, the same on every machine. Memory 0 is the fastest; not every browser takes a second one. */
export function kernelModuleBytes(memories: Memories): Uint8Array<ArrayBuffer> {
  const module = new ModuleBuilder(1 + Math.max(...memories));
  for (const define of [defineAdam, defineSgd, defineElementwise, defineSums, defineFinite, defineDigest, defineDraws])
    define(module, memories);
  return module.bytes();
}
