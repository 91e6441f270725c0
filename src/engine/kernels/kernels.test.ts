import { deepStrictEqual, notStrictEqual, strictEqual } from "node:assert/strict";
import { test } from "node:test";
import { fromBfloat16, fromFloat16, toBfloat16, toFloat16 } from "../../core/numbers/half.ts";
import { fillChance, fillNormal, fillUniform, randomKey } from "../../core/numbers/random.ts";
import type { KernelCall, KernelOperand, KernelResult } from "../engine.ts";
import { digestMultiplier } from "./kernel-module.ts";
import { finishDigest, KernelRunner, lowerCall, sharedMemory, viewOf } from "./kernels.ts";

/** Below a group, a group, groups with a rest, more than one scratch block. */
const lengths = [1, 15, 16, 17, 100, 1024, 16384 + 5, 50_001];
const round = Math.fround;

interface Bench {
  /** Operands with the same contents, in one block of memory or each on its own. */
  operand(name: string, length: number): KernelOperand;
  run(call: KernelCall): KernelResult;
}

function content(name: string, length: number): Float32Array {
  const values = new Float32Array(length);
  fillNormal(values, randomKey("kernels", name), 1);
  return name === "second" ? values.map((value) => value * value) : values;
}

function together(): Bench {
  const memory = sharedMemory(4 << 20);
  const block = { bytes: 4 << 20, buffer: memory.buffer as unknown as SharedArrayBuffer, offset: 0 };
  const runner = new KernelRunner();
  let start = 0;
  return {
    operand(name, length) {
      const span = { memory: block, start, length };
      start += length + 3;
      viewOf(span).set(content(name, length));
      return span;
    },
    run(call) {
      const lowered = lowerCall(call);
      return runner.run(
        lowered,
        lowered.operands.map(({ operand }) => ({ view: viewOf(operand), memory })),
      );
    },
  };
}

function inMemories(): Bench {
  const runner = new KernelRunner();
  const memories = new Map<ArrayBufferLike, WebAssembly.Memory>();
  return {
    operand(name, length) {
      const memory = sharedMemory(length * 4 + 64);
      memories.set(memory.buffer, memory);
      const data = new Float32Array(memory.buffer, 12, length);
      data.set(content(name, length));
      return { dtype: "float32", shape: [length], data };
    },
    run(call) {
      const lowered = lowerCall(call);
      const views = lowered.operands.map(({ operand }) => {
        const view = viewOf(operand);
        return { view, memory: memories.get(view.buffer) as WebAssembly.Memory };
      });
      return runner.run(lowered, views);
    },
  };
}

function apart(): Bench {
  const runner = new KernelRunner();
  return {
    operand: (name, length) => ({ dtype: "float32", shape: [length], data: content(name, length) }),
    run(call) {
      const lowered = lowerCall(call);
      return runner.run(
        lowered,
        lowered.operands.map(({ operand }) => ({ view: viewOf(operand) })),
      );
    },
  };
}

const benches = {
  "in one block of memory": together,
  "in several memories": inMemories,
  "through scratch memory": apart,
};

for (const [where, open] of Object.entries(benches)) {
  test(`adam and adamw ${where} equal the plain loop, bit for bit`, () => {
    for (const length of lengths)
      for (const decoupled of [true, false]) {
        const bench = open();
        const names = ["weights", "gradient", "first", "second"] as const;
        const operands = Object.fromEntries(names.map((name) => [name, bench.operand(name, length)])) as Record<
          (typeof names)[number],
          KernelOperand
        >;
        const call = {
          kind: "adam" as const,
          ...operands,
          rate: 0.001,
          beta1: 0.9,
          beta2: 0.95,
          epsilon: 1e-8,
          weightDecay: 0.1,
          decoupled,
          correction1: 0.271,
          correction2: 0.142625,
          gradientScale: 0.7,
        };
        const expected = names.map((name) => content(name, length)) as [F, F, F, F];
        plainAdam(expected, call);
        bench.run(call);
        for (const [i, name] of names.entries())
          deepStrictEqual(viewOf(operands[name]), expected[i], `${name} of ${length}`);
      }
  });

  test(`sgd ${where} equals the plain loop, with and without momentum`, () => {
    for (const momentum of [0, 0.9]) {
      const bench = open();
      const [weights, gradient, velocity] = ["weights", "gradient", "velocity"].map((name) =>
        bench.operand(name, 1001),
      ) as [KernelOperand, KernelOperand, KernelOperand];
      const [w, g, v] = ["weights", "gradient", "velocity"].map((name) => content(name, 1001)) as [F, F, F];
      for (let i = 0; i < w.length; i++) {
        const slope = round(round(g[i]! * round(0.5)) + round(w[i]! * round(0.01)));
        v[i] = momentum === 0 ? v[i]! : round(round(v[i]! * round(momentum)) + slope);
        w[i] = round(w[i]! - round((momentum === 0 ? slope : v[i]!) * round(0.1)));
      }
      bench.run({
        kind: "sgd",
        weights,
        gradient,
        velocity,
        rate: 0.1,
        momentum,
        weightDecay: 0.01,
        gradientScale: 0.5,
      });
      deepStrictEqual(viewOf(weights), w);
      deepStrictEqual(viewOf(velocity), v);
    }
  });

  test(`accumulate, copy and fill ${where} do what they say`, () => {
    for (const length of lengths) {
      const bench = open();
      const into = bench.operand("a", length);
      const add = bench.operand("b", length);
      bench.run({ kind: "accumulate", into, add });
      const b = content("b", length);
      deepStrictEqual(
        viewOf(into),
        content("a", length).map((value, i) => value + b[i]!),
      );
      bench.run({ kind: "copy", into, of: add });
      deepStrictEqual(viewOf(into), b);
      bench.run({ kind: "fill", into, value: 0.1 });
      deepStrictEqual(viewOf(into), new Float32Array(length).fill(0.1));
    }
  });

  test(`sumOfSquares and digest ${where} equal their lane-wise definitions`, () => {
    for (const length of lengths) {
      const bench = open();
      const of = bench.operand("a", length);
      strictEqual(bench.run({ kind: "sumOfSquares", of }).value, plainSumOfSquares(content("a", length)));
      strictEqual(bench.run({ kind: "digest", of }).digest, plainDigest(content("a", length)));
    }
  });

  test(`a digest ${where} sees a single changed bit and the length`, () => {
    const bench = open();
    const of = bench.operand("a", 1000);
    const before = bench.run({ kind: "digest", of }).digest;
    const view = viewOf(of);
    const words = new Uint32Array(view.buffer, view.byteOffset, view.length);
    for (const at of [0, 499, 999]) {
      words[at] = words[at]! ^ 1;
      notStrictEqual(bench.run({ kind: "digest", of }).digest, before);
      words[at] = words[at]! ^ 1;
    }
    strictEqual(bench.run({ kind: "digest", of }).digest, before);
    view.fill(0);
    const digests = [of, bench.operand("z", 999), bench.operand("z", 1001)].map((operand) => {
      viewOf(operand).fill(0);
      return bench.run({ kind: "digest", of: operand }).digest;
    });
    strictEqual(new Set(digests).size, 3);
  });

  test(`finite ${where} finds a NaN or an infinity wherever it hides`, () => {
    const bench = open();
    const of = bench.operand("a", 40_003);
    strictEqual(bench.run({ kind: "finite", of }).value, 1);
    for (const at of [0, 1, 2, 3, 15, 16, 20_000, 40_002])
      for (const bad of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]) {
        const value = viewOf(of)[at]!;
        viewOf(of)[at] = bad;
        strictEqual(bench.run({ kind: "finite", of }).value, 0, `${bad} at ${at}`);
        viewOf(of)[at] = value;
      }
    viewOf(of)[5] = 3.4e38;
    strictEqual(bench.run({ kind: "finite", of }).value, 1);
  });

  test(`rounding ${where} equals the way through 16 bits`, () => {
    const extremes = [
      0,
      -0,
      1e-8,
      5.9e-8,
      2.98e-8,
      6e-5,
      6.1e-5,
      65504,
      65519.99,
      65520,
      1e30,
      -1e30,
      Number.NaN,
      3e38,
    ];
    for (const length of [5, 20, 20_001])
      for (const to of ["float16", "bfloat16"] as const) {
        const bench = open();
        const of = bench.operand("a", length);
        const into = bench.operand("b", length);
        const values = viewOf(of);
        for (let i = 0; i < values.length; i++) values[i] = values[i]! * 2 ** ((i % 40) - 30);
        values.set(extremes.slice(0, length));
        bench.run({ kind: "round", into, of, to });
        const expected = to === "float16" ? fromFloat16(toFloat16(values)) : fromBfloat16(toBfloat16(values));
        deepStrictEqual(viewOf(into), expected);
      }
  });

  test(`chance ${where} gives the bits of fillChance`, () => {
    for (const length of lengths) {
      const bench = open();
      const into = bench.operand("a", length);
      const key = randomKey("dropout", 3, "block_1", length);
      bench.run({ kind: "chance", into, key, rate: 0.1, keepValue: 1 / 0.9, dropValue: 0 });
      const expected = new Float32Array(length);
      fillChance(expected, key, 0.1, 1 / 0.9, 0);
      deepStrictEqual(viewOf(into), expected);
    }
  });

  test(`initial weights ${where} have the bits of fillUniform and fillNormal, from any block on`, () => {
    for (const length of lengths)
      for (const from of [0, 4, 20_000]) {
        const bench = open();
        const [uniform, normal] = [bench.operand("a", length), bench.operand("b", length)];
        const key = randomKey("initial", 7, "block_1", length);
        bench.run({ kind: "uniform", into: uniform, key, from, low: -0.03, high: 0.07 });
        bench.run({ kind: "normal", into: normal, key, from, deviation: 0.02 });
        const expected = new Float32Array(from + length);
        fillUniform(expected, key, -0.03, 0.07);
        deepStrictEqual(viewOf(uniform), expected.slice(from));
        fillNormal(expected, key, 0.02);
        deepStrictEqual(viewOf(normal), expected.slice(from));
      }
  });
}

type F = Float32Array;

function plainAdam([w, g, m, v]: [F, F, F, F], call: KernelCall & { kind: "adam" }): void {
  const [, , , , step, root] = lowerCall(call).numbers as [number, number, number, number, number, number];
  for (let i = 0; i < w.length; i++) {
    const decay = round(w[i]! * round(call.decoupled ? 0 : call.weightDecay));
    const slope = round(round(g[i]! * round(call.gradientScale)) + decay);
    m[i] = round(round(m[i]! * round(call.beta1)) + round(slope * round(1 - call.beta1)));
    v[i] = round(round(v[i]! * round(call.beta2)) + round(round(slope * slope) * round(1 - call.beta2)));
    const shrunk = round(w[i]! * round(call.decoupled ? 1 - call.rate * call.weightDecay : 1));
    const size = round(round(round(Math.sqrt(v[i]!)) * round(root)) + round(call.epsilon));
    w[i] = round(shrunk - round(round(m[i]! * round(step)) / size));
  }
}

function plainSumOfSquares(values: F): number {
  const lanes = [0, 0, 0, 0];
  for (let i = 0; i < values.length; i++) lanes[i % 4] = lanes[i % 4]! + values[i]! * values[i]!;
  return lanes[0]! + lanes[1]! + (lanes[2]! + lanes[3]!);
}

function plainDigest(values: F): string {
  const mask = (1n << 64n) - 1n;
  const lanes = Array.from({ length: 8 }, (_, i) => (digestMultiplier * BigInt(i + 1)) & mask);
  const padded = new Float32Array(Math.ceil(values.length / 16) * 16);
  padded.set(values);
  for (const [i, word] of new BigUint64Array(padded.buffer).entries()) {
    const product = ((lanes[i % 8]! ^ word) * digestMultiplier) & mask;
    lanes[i % 8] = product ^ (product >> 32n);
  }
  return finishDigest(lanes, values.length);
}
