// A model served by real processes: one answer over one and two PNodes beside one process, several answers at once, and what
// PNodes keep in memory of it.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { storeModel } from "../../src/cli/content/model-files.ts";
import { LocalNetwork } from "../../src/cli/machine/local-network.ts";
import { openOutput } from "../../src/cli/shown/output.ts";
import { Client } from "../../src/client/client.ts";
import { hasCode } from "../../src/core/errors.ts";
import { elementCount } from "../../src/core/tensor.ts";
import { pagePositions } from "../../src/engine/stage/attention.ts";
import { importGguf } from "../../src/models/gguf/import.ts";
import { compileText } from "../../src/network/compile.ts";
import { cacheBytesPerPosition } from "../../src/network/graphs/generation.ts";
import type { Plan, VNodePlan } from "../../src/network/plan.ts";
import { cpuMsOf, pause } from "../lab.ts";
import { median } from "../side.ts";
import { type GgufFormat, type LlamaSize, parametersOf } from "./gguf.ts";
import { grown, type MemoryKinds, memoryKinds, totalMb } from "./memory-kinds.ts";

const answerTokens = 33;
const contextTokens = 1_024;
/** Machines that have nothing to do for so long keep what they will keep. */
const settleMs = 8_000;
/** Each as long as a request waits for a model that loads. */
const loadTriesMax = 10;
const keptAnswersMax = 64;

export interface Served {
  readonly spread: number;
  /** One request after the other, by the clock. */
  readonly tokensPerSecond: number;
  readonly cpuMs: number;
  /** Tokens/s of so many requests at once. */
  readonly together: ReadonlyMap<number, number>;
  /** Of each PNode beyond what it had before, in MB, and the weights that it hosts in their format. */
  readonly residentMb: readonly number[];
  /** Of each PNode before it served anything. */
  readonly idleMb: readonly number[];
  /** What grew, by kind. */
  readonly grew: readonly string[];
  readonly shareMb: readonly number[];
  /** What the conductor keeps of answers that ended, for others that begin alike. */
  readonly cacheMb: readonly number[];
}

const prompt = Array.from({ length: 16 }, (_, i) => (i * 7919 + 13) % 31_000);

export async function serveOver(
  file: string,
  format: GgufFormat,
  spread: number,
  rounds: number,
  crowds: readonly number[],
  log: (line: string) => void,
): Promise<Served> {
  const directory = await mkdtemp(join(tmpdir(), "dcnr-bench-"));
  const options = { directory, listen: "127.0.0.1:0", pnodes: spread, cpusPerPNode: 1, logLevel: "error" };
  const network = await LocalNetwork.start(options);
  const client = new Client(network.orchestrator.address, { fetch });
  try {
    const pnodes = network.pnodes.map(({ pid }) => pid as number);
    await pause(settleMs);
    const idle = pnodes.map(memoryKinds);
    const model = await importGguf(file, { context: contextTokens, name: "bench" });
    await storeModel({ out: openOutput(process.env, true), signal: new AbortController().signal }, client, model);
    await client.models.serve("bench", { spread, ...(format === "float32" ? {} : { weights: format }) });
    const ask = async (seed: number, maxTokens: number) => {
      let [firstMs, count] = [0, 0];
      for await (const _ of client.generate("bench", prompt, { maxTokens, seed })) {
        firstMs ||= performance.now();
        count++;
      }
      return { ms: performance.now() - firstMs, count };
    };
    await untilServed(() => ask(0, 8));
    const one: { tokensPerSecond: number; cpuMs: number }[] = [];
    for (let round = 0; round < rounds; round++) {
      const before = cpuMsOf(pnodes);
      const { ms, count } = await ask(round, answerTokens);
      one.push({ tokensPerSecond: ((count - 1) / ms) * 1000, cpuMs: (cpuMsOf(pnodes) - before) / count });
      log(`${format} over ${spread}: ${one.at(-1)?.tokensPerSecond.toFixed(1)} tokens/s`);
    }
    const together = new Map<number, number>();
    for (const crowd of crowds) {
      const began = performance.now();
      const answers = await Promise.all(Array.from({ length: crowd }, (_, seed) => ask(seed, answerTokens)));
      const tokens = answers.reduce((sum, { count }) => sum + count, 0);
      together.set(crowd, (tokens / (performance.now() - began)) * 1000);
      log(`${format} over ${spread}, ${crowd} at once: ${together.get(crowd)?.toFixed(1)} tokens/s`);
    }
    await pause(settleMs);
    const settled = pnodes.map(memoryKinds);
    const plan = compileText(model.definition);
    const hosted = await hostedBy(client, network, plan);
    const answers = rounds + crowds.reduce((sum, crowd) => sum + crowd, 0);
    return {
      spread,
      tokensPerSecond: median(one.map((each) => each.tokensPerSecond)),
      cpuMs: median(one.map((each) => each.cpuMs)),
      together,
      residentMb: settled.map((kinds, i) => totalMb(kinds) - totalMb(idle[i] as MemoryKinds)),
      idleMb: idle.map(totalMb),
      grew: settled.map((kinds, i) => grown(idle[i] as MemoryKinds, kinds)),
      shareMb: hosted.map((own) => shareMb(plan, own, format)),
      cacheMb: hosted.map((own) => cacheMb(own, answers)),
    };
  } finally {
    await client.close();
    await network.stop();
    await rm(directory, { recursive: true, force: true });
  }
}

/** On a busy machine weights take longer to load than a request is patient. */
async function untilServed(ask: () => Promise<unknown>): Promise<void> {
  for (let tries = 0; ; tries++)
    try {
      await ask();
      return;
    } catch (error) {
      if (tries === loadTriesMax || !hasCode(error, "unavailable")) throw error;
    }
}

/** What each PNode hosts. A matrix that two VNodes share counts once on each machine that needs it. */
function shareMb(plan: Plan, own: readonly VNodePlan[], format: GgufFormat): number {
  const matrices = own.flatMap((vnode) => [
    ...vnode.parameters.map(({ name, shape }) => [name, shape] as const),
    ...plan.edges.flatMap(({ kind, to, fromPort, shape }) =>
      kind === "tie" && to === vnode.id ? [[fromPort, shape] as const] : [],
    ),
  ]);
  const elements = [...new Map(matrices).values()].reduce((sum, shape) => sum + elementCount(shape), 0);
  return (elements * bytesOf[format]) / 2 ** 20;
}

/** Of each PNode. */
async function hostedBy(client: Client, network: LocalNetwork, plan: Plan): Promise<(readonly VNodePlan[])[]> {
  const hosts = new Map((await client.fleet.vnodes()).map(({ id, pnode }) => [id, pnode]));
  return network.pnodes.map(({ id }) => plan.vnodes.filter((vnode) => hosts.get(vnode.id) === id));
}

/** As many answers as a conductor keeps (pnode/serving/prefixes.ts), in whole pages; the last token of an answer is never read. */
function cacheMb(own: readonly VNodePlan[], answers: number): number {
  const pages = Math.ceil((prompt.length + answerTokens - 1) / pagePositions);
  const positions = Math.min(answers, keptAnswersMax) * pages * pagePositions;
  return own.reduce((sum, vnode) => sum + cacheBytesPerPosition(vnode) * positions, 0) / 2 ** 20;
}

/** With 4 bytes for each scale of a block of 32. */
const bytesOf = { float32: 4, "8bit": 1 + 4 / 32, "4bit": 0.5 + 4 / 32 };

/** All weights in a format; the tied matrix once. */
function weightsMb(size: LlamaSize, format: GgufFormat): number {
  return (parametersOf(size) * bytesOf[format]) / 2 ** 20;
}

const round = (value: number, digits = 1) => value.toFixed(digits);

export function networkTable(
  found: readonly { readonly format: GgufFormat; readonly served: readonly Served[] }[],
  size: LlamaSize,
): string {
  const rows = found.flatMap(({ format, served }) =>
    served.map(({ spread, tokensPerSecond, cpuMs, together, residentMb: mb, shareMb, cacheMb, idleMb, grew }) => {
      const first = served.find((one) => one.spread === 1)?.tokensPerSecond;
      const crowds = Array.from(together, ([crowd, rate]) => `${crowd}: ${round(rate)}`).join(", ");
      const needed = shareMb.map((share, i) => share + (cacheMb[i] as number));
      const times = mb.map((each, i) => round(each / (needed[i] as number), 2)).join(", ");
      const whole = mb.map((each, i) => round((each + (idleMb[i] as number)) / (needed[i] as number), 2)).join(", ");
      const needs = shareMb.map((share, i) => `${round(share, 0)} + ${round(cacheMb[i] as number, 0)}`).join(", ");
      return `| ${format} | ${spread} | ${round(tokensPerSecond)} | ${spread === 1 || first === undefined ? "" : round(tokensPerSecond / first, 2)} | ${round(cpuMs)} | ${crowds} | ${idleMb.map((each) => round(each, 0)).join(", ")} | ${mb.map((each) => round(each, 0)).join(", ")} | ${needs} | ${times} | ${whole} | ${grew.join("; ")} |`;
    }),
  );
  return [
    `A model of ${parametersOf(size).toLocaleString("en")} parameters served by PNodes with one worker each, as processes of one machine. Memory: what a PNode holds (PSS) beyond what it had before it served; its share is the weights that it hosts in their format, of a matrix that is tied once on each machine that needs it (all: ${(["float32", "8bit", "4bit"] as const).map((format) => `${format} ${round(weightsMb(size, format), 0)} MB`).join(", ")}); caches are those of the answers that were given.`,
    "",
    "| weights | PNodes | tokens/s, one answer | of one PNode's (>= 0.92) | CPU ms a token | tokens/s, so many answers at once | MB before it served | MB more | its share + caches, MB | times that, beyond an idle PNode | times that, in all (<= 1.3) | what grew, MB |",
    "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ...rows,
  ].join("\n");
}
