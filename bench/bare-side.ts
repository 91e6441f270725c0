// A network trained in one process by its numerics alone: no hashes, nothing retained, no checkpoints, no streams. What
// the recovery benchmark compares a PNode with. Speaks as compute-side.ts does.

import { createInterface } from "node:readline";
import { openExecutor } from "../src/engine/pool/threads.ts";
import { type Trained, trained } from "./lab.ts";
import { Trainer } from "./trainer.ts";

const [name, count] = process.argv.slice(2);
const { definition, samples } = trained[name as Trained];
const microbatches = Number(count);
const executor = await openExecutor({ kind: "native", workers: 1 });
const batch = samples * microbatches;
const trainer = await Trainer.open({ definition: definition(), executor, batch, microbatches });
console.log(JSON.stringify({ ready: true }));

for await (const line of createInterface({ input: process.stdin })) {
  const before = process.cpuUsage();
  const start = performance.now();
  const losses: number[] = [];
  for (let i = 0; i < Number(line); i++) losses.push(await trainer.step());
  const { user, system } = process.cpuUsage(before);
  const cpuMs = (user + system) / 1000 / losses.length;
  const rssMb = process.memoryUsage.rss() / 1e6;
  console.log(JSON.stringify({ cpuMs, wallMs: (performance.now() - start) / losses.length, rssMb, losses }));
}
await executor.close();
