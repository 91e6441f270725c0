import assert from "node:assert/strict";
import { test } from "node:test";
import type { Context } from "../context.ts";
import type { MetricPoint, Metrics } from "../views/metrics.ts";
import type { Compiled } from "./compiled.ts";
import { Rates } from "./rates.ts";

async function ratesOf(inputs: object, heard: readonly (readonly [ms: number, step: number])[]) {
  let nowMs = 0;
  const running: Promise<void>[] = [];
  const added: MetricPoint[] = [];
  const context = {
    world: { clock: { monotonicMs: () => nowMs } },
    mirror: { get: () => ({ id: "s", identity: { definition: "d", batch: 8 } }) },
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
