// The numerics class of each engine and the speed of one core. Measured in a process of its own, which takes the
// engines with it when it ends: a PNode that waits for work stays small. Where this process may start no other, in a
// thread, which leaves a native library behind.

import { execFile } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { DcnrError, messageOf } from "../../core/errors.ts";
import { allocate } from "../../core/tensor.ts";
import type { Clock } from "../../core/world.ts";
import type { EngineKind, Executor } from "../../engine/engine.ts";
import { GraphBuilder } from "../../graph/builder.ts";
import { realClock } from "../../system/clock.ts";
import { measureGflops } from "../../system/machine/hardware.ts";

export interface Measured {
  /** Of one core. */
  readonly gflops: number;
  readonly classes: readonly { engine: string; class: string }[];
}

/** Of one core, where nothing is known yet: a modest one, so that real work corrects it upwards. */
export const gflopsEstimated = 10;

/** Loading two engines takes a second or two, and minutes on a machine with dozens of busy processes. */
const measureTimeoutMs = 600_000;

export async function measureMachine(): Promise<Measured> {
  try {
    return process.permission?.has("child") === false ? await measureInThread() : await measureInProcess();
  } catch (error) {
    throw new DcnrError("internal", `this machine's engines cannot be measured: ${messageOf(error)}`, { cause: error });
  }
}

async function measureInProcess(): Promise<Measured> {
  const script = fileURLToPath(import.meta.url);
  const { stdout } = await promisify(execFile)(process.execPath, [script], { timeout: measureTimeoutMs });
  return JSON.parse(stdout) as Measured;
}

const threadMark = "measure this machine";

async function measureInThread(): Promise<Measured> {
  const thread = new Worker(new URL(import.meta.url), { workerData: threadMark });
  // A PNode that stops does not wait for it.
  thread.unref();
  const [measured] = (await once(thread, "message")) as [Measured];
  await thread.terminate();
  return measured;
}

async function measureHere(clock: Clock): Promise<Measured> {
  const { openExecutor } = await import("../../engine/pool/threads.ts");
  const classes: { engine: string; class: string }[] = [];
  let gflops = 0;
  const { hasNativeEngine } = await import("../../engine/onnx/native.ts");
  const kinds: readonly EngineKind[] = [
    ...(hasNativeEngine() ? (["native"] as const) : []),
    ...["portable" as const, "exact" as const],
  ];
  for (const kind of kinds) {
    const executor = await openExecutor({ kind, workers: 1 });
    classes.push({ engine: kind, class: await executor.numericsClass() });
    // By the fastest one that it has.
    if (kind === kinds[0]) gflops = await speedOf(executor, clock);
    await executor.close();
  }
  return { gflops, classes };
}

const probeSize = 512;
/** About 10 ms each: on a busy machine one of them runs undisturbed. */
const tries = 16;

async function speedOf(executor: Executor, clock: Clock): Promise<number> {
  const builder = new GraphBuilder("speed");
  const shape = [probeSize, probeSize];
  const product = builder.op("MatMul", [builder.input("a", "float32", shape), builder.input("b", "float32", shape)]);
  builder.output(product, "c");
  executor.register("speed", builder.build());
  const feeds = () => ({ a: allocate("float32", shape), b: allocate("float32", shape) });
  const work = async () => void (await executor.run("speed", feeds()));
  return measureGflops(work, 2 * probeSize ** 3, clock, tries);
}

if (!isMainThread && workerData === threadMark) parentPort?.postMessage(await measureHere(realClock));
else if (isMainThread && import.meta.main) process.stdout.write(JSON.stringify(await measureHere(realClock)));
