import assert from "node:assert/strict";
import { test } from "node:test";
import type { Context } from "../context.ts";
import type { MetricPoint, Metrics } from "../views/metrics.ts";
import type { Compiled } from "./compiled.ts";
import { Rates } from "./rates.ts";

async function ratesOf(inputs: object, heard: readonly (readonly [ms: number, step: number])[], session: object = {}) {
  let nowMs = 0;
  const running: Promise<void>[] = [];
  const added: MetricPoint[] = [];
  const context = {
    world: { clock: { monotonicMs: () => nowMs } },
    mirror: {
      get: () => ({ id: "s", identity: { definition: "d", steps: 1_000, batch: 8, microbatches: 4 }, ...session }),
    },
    tasks: { run: (_: string, work: () => Promise<void>) => void running.push(work()) },
  } as unknown as Context;
  const compiled = { plan: async () => ({ inputs }) } as unknown as Compiled;
  const metrics = { add: (_: string, points: MetricPoint[]) => added.push(...points) } as unknown as Metrics;
  const rates = new Rates(context, compiled, metrics);
  for (const [ms, step] of heard) {
    nowMs = ms;
    rates.note("s", [
      { name: "loss", step, value: 1, vnode: "head" },
      { name: "learning_rate", step: step + 5, value: 1, vnode: "head" },
    ]);
  }
  await Promise.all(running);
  return added.map(({ name, step, value }) => [name, step, value]);
}

const text = { wire: "int32", shape: [64] };

test("steps between two heartbeats become samples and tokens a second", async () => {
  assert.deepEqual(
    await ratesOf(text, [
      [0, 10],
      [500, 15],
      [2_000, 30],
    ]),
    [
      ["samples_per_second", 30, 80],
      ["tokens_per_second", 30, 5_120],
    ],
  );
  assert.deepEqual(
    await ratesOf({ wire: "float32", shape: [784] }, [
      [0, 1],
      [4_000, 5],
    ]),
    [["samples_per_second", 5, 8]],
  );
});

test("in rounds samples are those that lanes learn from: not in the step in which it is put together, nor where one rests or learns less", async () => {
  const identity = {
    ...{ definition: "d", steps: 1_000, batch: 8, microbatches: 4, lanes: 2 },
    sync: { every: 9, after: 20 },
  };
  const image = { wire: "float32", shape: [784] };
  const marks = [
    [0, 10],
    [2_000, 50],
  ] as const;
  const perSecond = async (rounds: readonly object[]) =>
    (await ratesOf(image, marks, { identity, policy: { elastic: "on" }, rounds }))[0]?.[2];
  assert.equal(await perSecond([]), (10 + 3 * 9) * 4, "ten steps together, three rounds of nine");
  const lane = (number: number, steps: number) => ({ lane: number, steps });
  const rounds = [
    { round: 0, lanes: [lane(0, 9), lane(1, 3)] },
    { round: 1, lanes: [lane(0, 9), lane(1, 9)], counted: [1] },
    { round: 2, lanes: [lane(1, 9)] },
  ];
  assert.equal(await perSecond(rounds), 10 * 4 + (9 + 3 + 9 + 9) * 2);
});

test("pauses and replays have no rate", async () => {
  assert.deepEqual(
    await ratesOf(text, [
      [0, 10],
      [60_000, 20],
    ]),
    [],
  );
  assert.deepEqual(
    await ratesOf(text, [
      [0, 10],
      [3_000, 8],
    ]),
    [],
  );
});
