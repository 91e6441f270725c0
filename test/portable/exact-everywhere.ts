// `npm run exact-hash [-- --steps N] [--microbatches N] [--gpus NAME,NAME]`: the demo GPT trained by exact numerics on this processor, on every GPU in software
// and in every browser that is here. All must come to one hash.

import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { openExactEngine } from "../../src/engine/exact/engine.ts";
import { browsersHere } from "../browser/browser.ts";
import { Firefox, firefoxHere } from "../browser/firefox.ts";
import { runOn, softwareGpus } from "../webgpu/software-gpu.ts";
import { rootOfExactTraining } from "./exact-training.ts";
import { bundle, serve } from "./serve.ts";

const { values } = parseArgs({
  options: {
    steps: { type: "string", default: "2" },
    microbatches: { type: "string", default: "1" },
    gpus: { type: "string", default: "SwiftShader,lavapipe" },
  },
});
const howMuch = { steps: Number(values.steps), microbatches: Number(values.microbatches) };
const text = readFileSync(new URL("../../examples/gpt-demo.yaml", import.meta.url), "utf8");
let differing = 0;

const startCpu = process.cpuUsage();
const expected = await rootOfExactTraining(text, openExactEngine(), howMuch);
const { user, system } = process.cpuUsage(startCpu);

/** `took`: what is known of the time. */
function compare(where: string, root: string, took = ""): void {
  if (root !== expected) differing++;
  console.log(`${where.padEnd(36)} ${root.slice(0, 16)}${root === expected ? "" : "  DIFFERS"}  ${took}`);
}

console.log(`${howMuch.steps} steps of gpt-demo.yaml, ${howMuch.microbatches} microbatches of four samples`);
compare(`Node ${process.version}, WebAssembly`, expected, `${((user + system) / 1e6).toFixed(1)} CPU s`);
const asked = values.gpus.split(",");
for (const gpu of (await softwareGpus()).filter(({ name }) => asked.includes(name))) {
  const given = [values.steps, values.microbatches];
  const { code, output } = await runOn(gpu, new URL("./exact-on-device.ts", import.meta.url), given);
  const last = output.trim().split("\n").at(-1) ?? "";
  if (code !== 0) {
    const refused = gpu.name !== "SwiftShader" && /no GPU can be used|driver is refused/.test(output);
    if (!refused) differing++;
    console.log(
      `${gpu.name.padEnd(36)} ${refused ? "not run: its driver is refused" : `FAILED: ${output.slice(-500)}`}`,
    );
    continue;
  }
  const { root, cpuSeconds, seconds } = JSON.parse(last) as { root: string; cpuSeconds: number; seconds: number };
  compare(gpu.name, root, `${cpuSeconds.toFixed(1)} CPU s, compilation included (${seconds.toFixed(0)} s)`);
}
const { url, close } = await serve(await bundle("page.ts", "browser"));
for (const { name, launch } of browsersHere()) {
  const browser = await launch();
  const page = await browser.newPage();
  await page.goto(url);
  await page.waitForFunction("'trainExactly' in window");
  const root = await page.evaluate(([definition, much]) => window.trainExactly(definition, much), [
    text,
    howMuch,
  ] as const);
  compare(`${name}, Chromium ${browser.version()}`, root);
  await browser.close();
}
const program = firefoxHere();
if (program !== undefined) {
  const firefox = await Firefox.launch(program);
  try {
    await firefox.go(url);
    await firefox.until(`"trainExactly" in window`);
    const call = `window.trainExactly(${JSON.stringify(text)}, ${JSON.stringify(howMuch)})`;
    compare("Firefox", String(await firefox.evaluate(call)));
  } finally {
    await firefox.close();
  }
}
await close();
process.exitCode = differing > 0 ? 1 : 0;
