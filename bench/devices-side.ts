// One engine trains a network for some steps: `devices-side.ts ENGINE STEPS FILE [MICROBATCHES]`. A process of its own, since drivers of GPUs are found by
// the environment that a process starts with. Prints what it measured as JSON.

import { readFileSync } from "node:fs";
import { demoRate } from "../src/cli/content/demo-rate.ts";
import { sha256 } from "../src/core/hash.ts";
import type { Engine } from "../src/engine/engine.ts";
import { openExactWebgpuEngine } from "../src/engine/exact/webgpu.ts";
import { openInlineExecutor } from "../src/engine/executor.ts";
import { openEngine } from "../src/engine/open.ts";
import { openWebgpuEngine } from "../src/engine/webgpu/engine.ts";
import { compileText } from "../src/network/compile.ts";
import { learning, samples, train } from "../src/vnode/training-run.testing.ts";
import { demoBatches } from "./demo-batches.ts";

export interface SideResult {
  readonly class: string;
  readonly losses: readonly number[];
  /** Of the weights and moments after the last step. */
  readonly weights: string;
  /** Of each step; the first holds the compilation of shaders. */
  readonly stepMs: readonly number[];
  /** Bytes over the bus in the last step, both ways, and milliseconds on the device in all steps but the first. */
  readonly up: number;
  readonly down: number;
  readonly busyMs: number;
  readonly residentMost: number;
  readonly residentAfter: number;
}

const [kind = "", steps = "", file = "", microbatches = "2"] = process.argv.slice(2);
const now = () => performance.now();
const gpu =
  kind === "webgpu"
    ? await openWebgpuEngine({ now })
    : kind === "exact-webgpu"
      ? await openExactWebgpuEngine({ now })
      : undefined;
const engine: Engine = gpu ?? (await openEngine(kind as Engine["kind"]));
const executor = openInlineExecutor(engine);
const seen: { atMs: number; up: number; down: number; busyMs: number }[] = [];
let residentMost = 0;
const look = () => {
  const { up = 0, down = 0, busyMs = 0, resident = 0 } = gpu?.device.traffic ?? {};
  residentMost = Math.max(residentMost, resident);
  seen.push({ atMs: now(), up, down, busyMs });
};
const count = Number(steps);
/**
 * As the demo learns, from its own text where the network reads as many words. On a handful of samples that never change, or at full rate from the first
 * step on, losses part in the fifth decimal between any two engines, doubles included: Adam moves weights whose gradient is no larger
 * than its own rounding by whole steps.
 */
const asTheDemo = { ...learning, seed: 1, learningRate: demoRate };
const schedule = {
  ...{ steps: count, validateEvery: 0, validationMicrobatches: 1, checkpointEvery: count },
  microbatches: Number(microbatches),
};
const text = readFileSync(file, "utf8");
const batches = await demoBatches(compileText(text), samples * schedule.microbatches, schedule.microbatches);
look();
const { losses, hashes } = await train(text, 1, executor, {
  ...(batches && { batches }),
  schedule,
  learning: asTheDemo,
  onLoss: look,
});
const numerics = await executor.numericsClass();
const residentAfter = gpu?.device.traffic.resident ?? 0;
const at = (index: number) => seen.at(index) ?? { atMs: 0, up: 0, down: 0, busyMs: 0 };
const result: SideResult = {
  class: numerics,
  losses,
  weights: sha256([...hashes].sort().join()).slice(0, 12),
  stepMs: seen.slice(1).map(({ atMs }, i) => atMs - at(i).atMs),
  up: at(-1).up - at(-2).up,
  down: at(-1).down - at(-2).down,
  busyMs: at(-1).busyMs - at(1).busyMs,
  residentMost,
  residentAfter,
};
console.log(JSON.stringify(result));
await executor.close();
