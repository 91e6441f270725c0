// The demo GPT by exact numerics on the GPU that this process sees: `exact-on-device.ts STEPS MICROBATCHES`. Prints the root, and what it took.

import { readFileSync } from "node:fs";
import { openExactWebgpuEngine } from "../../src/engine/exact/webgpu.ts";
import { rootOfExactTraining } from "./exact-training.ts";

const [steps, microbatches] = process.argv.slice(2).map(Number);
const text = readFileSync(new URL("../../examples/gpt-demo.yaml", import.meta.url), "utf8");
const startMs = performance.now();
const root = await rootOfExactTraining(text, await openExactWebgpuEngine(), {
  ...(steps && { steps }),
  ...(microbatches && { microbatches }),
});
const { user, system } = process.cpuUsage();
console.log(JSON.stringify({ root, seconds: (performance.now() - startMs) / 1e3, cpuSeconds: (user + system) / 1e6 }));
