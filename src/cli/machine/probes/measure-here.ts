// The program that measures a machine's engines, in a process or a thread of its own (../measure-machine.ts starts it).

import { isMainThread, parentPort } from "node:worker_threads";
import { allocate } from "../../../core/tensor.ts";
import type { Clock } from "../../../core/world.ts";
import type { EngineKind, Executor } from "../../../engine/engine.ts";
import { hasNativeEngine } from "../../../engine/onnx/native.ts";
import { openExecutor } from "../../../engine/pool/threads.ts";
import { GraphBuilder } from "../../../graph/builder.ts";
import { realClock } from "../../../system/clock.ts";
import { measureGflops } from "../../../system/machine/hardware.ts";
import { type Finding, gflopsEstimated } from "../measure-machine.ts";

async function* measureHere(clock: Clock): AsyncGenerator<Finding> {
  const classes: { engine: string; class: string }[] = [];
  let gflops = gflopsEstimated;
  const kinds: readonly EngineKind[] = [
    ...(hasNativeEngine() ? (["native"] as const) : []),
    ...["portable" as const, "exact" as const],
  ];
  const found = (isAll = false): Finding => ({ gflops, classes: [...classes], isAll });
  for (const kind of kinds) {
    const executor = await openExecutor({ kind, workers: 1 });
    classes.push({ engine: kind, class: await executor.numericsClass() });
    yield found();
    // By the fastest one that it has.
    if (kind === kinds[0]) gflops = await speedOf(executor, clock);
    await executor.close();
  }
  yield found(true);
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

for await (const finding of measureHere(realClock)) {
  if (isMainThread) process.stdout.write(`${JSON.stringify(finding)}\n`);
  else parentPort?.postMessage(finding);
}
