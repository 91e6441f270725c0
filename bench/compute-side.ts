// Our side of the compute benchmark, in a process of its own so that its memory and CPU time are its own. Reads a number
// of steps a line, answers with one line of JSON, as the peers do.

import { createInterface } from "node:readline";
import type { EngineKind } from "../src/engine/engine.ts";
import { openExecutor } from "../src/engine/pool/threads.ts";
import { openWebExecutor } from "./compute-web.ts";
import { Trainer } from "./trainer.ts";
import { workloads } from "./workloads.ts";

const [name, kind = "native"] = process.argv.slice(2);
const workload = workloads.find((each) => each.name === name);
if (workload === undefined) throw new Error(`there is no workload ${name}`);
const executor =
  kind === "onnxruntime-web" ? await openWebExecutor() : await openExecutor({ kind: kind as EngineKind, workers: 1 });
const trainer = await Trainer.open({ definition: workload.definition(), executor, batch: workload.batch });
console.log(JSON.stringify({ ready: true, vnodes: trainer.plan.vnodes.length }));

for await (const line of createInterface({ input: process.stdin })) {
  const before = process.cpuUsage();
  const start = performance.now();
  const losses: number[] = [];
  for (let i = 0; i < Number(line); i++) losses.push(await trainer.step());
  const { user, system } = process.cpuUsage(before);
  const rssMb = process.memoryUsage.rss() / 1e6;
  const cpuMs = (user + system) / 1000 / losses.length;
  console.log(JSON.stringify({ cpuMs, wallMs: (performance.now() - start) / losses.length, rssMb, losses }));
}
await executor.close();
