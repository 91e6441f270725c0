// One of the two that are compared, as a process of its own: reads a GGUF file and answers, one thread, no network. `--engine llama` is llama.cpp
// (node-llama-cpp, from the folder that DCNR_LLAMA_CPP names), the others are ours. One line in (how many tokens), one line of JSON out.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import type { EngineKind } from "../../src/engine/engine.ts";

export interface Decoded {
  /** Of one token after the first. */
  readonly cpuMs: number;
  readonly wallMs: number;
  /** Of the whole prompt. */
  readonly prefillCpuMs: number;
  /** What the model takes beyond the process without it. */
  readonly residentMb: number;
  readonly tokens: readonly number[];
}

const { values } = parseArgs({
  options: {
    engine: { type: "string", default: "native" },
    file: { type: "string", default: "" },
    weights: { type: "string", default: "float32" },
    prompt: { type: "string", default: "16" },
  },
});

type Answer = AsyncIterable<number>;
type Model = (prompt: number[], tokens: number) => Answer;

const promptTokens = Array.from({ length: Number(values.prompt) }, (_, i) => (i * 7919 + 13) % 31_000);
const contextTokens = 1_024;

async function llama(file: string): Promise<Model> {
  const folder = process.env["DCNR_LLAMA_CPP"] ?? "";
  const entry = createRequire(join(folder, "package.json")).resolve("node-llama-cpp");
  const { getLlama, LlamaLogLevel } = await import(pathToFileURL(entry).href);
  const runtime = await getLlama({ gpu: false, build: "never", maxThreads: 1, logLevel: LlamaLogLevel.error });
  const model = await runtime.loadModel({ modelPath: file, gpuLayers: 0, useMmap: false });
  const options = { contextSize: contextTokens, batchSize: 512, threads: 1, flashAttention: false };
  const sequence = (await model.createContext(options)).getSequence();
  return async function* (prompt, tokens) {
    await sequence.clearHistory();
    let made = 0;
    for await (const token of sequence.evaluate(prompt, { temperature: 0, yieldEogToken: true })) {
      yield token as number;
      if (++made === tokens) break;
    }
  };
}

async function own(file: string, kind: EngineKind, weights: string): Promise<Model> {
  const { importGguf } = await import("../../src/models/gguf/import.ts");
  const { compileText } = await import("../../src/network/compile.ts");
  const { openExecutor } = await import("../../src/engine/pool/threads.ts");
  const { LocalStage } = await import("../../src/vnode/serving/local-stage.testing.ts");
  const { bitsOf, parseWeightFormat } = await import("../../src/network/weight-format.ts");
  const model = await importGguf(file, { context: contextTokens });
  const executor = await openExecutor({ kind, workers: 1 });
  const bits = bitsOf(parseWeightFormat(weights === "float32" ? "" : weights));
  const stage = await LocalStage.open(compileText(model.definition), executor, (name) => model.load(name), bits);
  return async function* (prompt, tokens) {
    stage.drop("r");
    let [ids, position] = [prompt, 0];
    for (let made = 0; made < tokens; made++) {
      const next = await stage.read([{ request: "r", position, ids }], likeliest);
      position += ids.length;
      ids = [next];
      yield ids[0] as number;
    }
  };
}

function likeliest(logits: Float32Array): number {
  let best = 0;
  for (let i = 1; i < logits.length; i++) if ((logits[i] as number) > (logits[best] as number)) best = i;
  return best;
}

const cpuMs = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
};

const residentMb = () =>
  Number(/^Rss:\s+(\d+)/m.exec(readFileSync("/proc/self/smaps_rollup", "utf8"))?.[1] ?? 0) / 1024;

const before = residentMb();
const { engine = "", file = "", weights = "" } = values;
const answer = engine === "llama" ? await llama(file) : await own(file, engine as EngineKind, weights);

async function decode(count: number): Promise<Decoded> {
  const began = cpuMs();
  let [firstCpuMs, firstWallMs] = [0, 0];
  const tokens: number[] = [];
  for await (const token of answer(promptTokens, count)) {
    tokens.push(token);
    if (tokens.length === 1) [firstCpuMs, firstWallMs] = [cpuMs(), performance.now()];
  }
  const steps = Math.max(1, count - 1);
  return {
    cpuMs: (cpuMs() - firstCpuMs) / steps,
    wallMs: (performance.now() - firstWallMs) / steps,
    prefillCpuMs: firstCpuMs - began,
    residentMb: residentMb() - before,
    tokens,
  };
}

await decode(4);
console.log(JSON.stringify("ready"));
for await (const line of createInterface({ input: process.stdin }))
  console.log(JSON.stringify(await decode(Number(line))));
process.exit(0);
