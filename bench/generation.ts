// Tokens per second: one request over two PNodes against one process without a network, eight requests against one,
// and the time to the first token after a long prompt. Sides take turns, so that a busy machine disturbs them alike.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { LocalNetwork } from "../src/cli/machine/local-network.ts";
import { Client } from "../src/client/client.ts";
import { openExecutor } from "../src/engine/pool/threads.ts";
import { LocalGenerator } from "./generation-local.ts";
import { cpuMsOf } from "./lab.ts";
import { median } from "./side.ts";
import { makeSpeaker, serveSpeaker, speakerSize, speakerTokens } from "./speaker.ts";

const promptShort = speakerTokens(16);
const promptLong = speakerTokens(512);
const answerTokens = 48;
const together = 8;

export interface GenerationBench {
  readonly local: Rate;
  readonly network: Rate;
  readonly eight: Rate;
  /** Of rounds, each with all sides. */
  readonly networkShare: number;
  readonly eightTimes: number;
  readonly firstTokenMs: { readonly local: number; readonly network: number };
  readonly stepMs: number;
}

interface Rate {
  readonly tokensPerSecond: number;
  readonly cpuMsPerToken: number;
}

interface Run {
  readonly wallMs: number;
  readonly cpuMs: number;
  readonly firstMs: number;
  readonly tokens: number;
}

async function measured(pids: readonly number[], answers: readonly AsyncIterable<unknown>[]): Promise<Run> {
  const cpuBefore = cpuMsOf(pids);
  const began = performance.now();
  let firstMs = 0;
  let tokens = 0;
  await Promise.all(
    answers.map(async (answer) => {
      for await (const _ of answer) {
        firstMs ||= performance.now() - began;
        tokens++;
      }
    }),
  );
  return { wallMs: performance.now() - began, cpuMs: cpuMsOf(pids) - cpuBefore, firstMs, tokens };
}

function rateOf(runs: readonly Run[]): Rate {
  return {
    tokensPerSecond: median(runs.map(({ tokens, wallMs }) => (tokens / wallMs) * 1000)),
    cpuMsPerToken: runs.reduce((sum, run) => sum + run.cpuMs, 0) / runs.reduce((sum, run) => sum + run.tokens, 0),
  };
}

export async function runGenerationBench(rounds = 5, log: (line: string) => void = () => {}): Promise<GenerationBench> {
  const directory = await mkdtemp(join(tmpdir(), "dcnr-bench-"));
  const speaker = await makeSpeaker();
  const { plan, states } = speaker;
  const executor = await openExecutor({ kind: "native", workers: 1 });
  const listen = { directory, listen: "127.0.0.1:0", pnodes: 2, cpusPerPNode: 1, logLevel: "error" };
  const network = await LocalNetwork.start(listen);
  const client = new Client(network.orchestrator.address, { fetch });
  try {
    const readers = new Map(Array.from(states, ([id, { reader }]) => [id, reader]));
    const local = await LocalGenerator.open(plan, executor, readers);
    await serveSpeaker(speaker, client, 2);
    const pids = [network.orchestrator, ...network.pnodes].map(({ pid }) => pid as number);
    const alone = (prompt: number[], maxTokens: number) => measured([process.pid], [local.generate(prompt, maxTokens)]);
    const through = (count: number, prompt: number[], maxTokens: number) =>
      measured(
        pids,
        Array.from({ length: count }, (_, seed) => client.generate(speakerSize.name, prompt, { maxTokens, seed })),
      );
    // Graphs are loaded when they are first needed.
    await alone(promptShort, answerTokens);
    await through(1, promptShort, answerTokens);
    await through(together, promptShort, answerTokens);
    await alone(promptLong, 1);
    await through(1, promptLong, 1);
    const runs: { local: Run; one: Run; eight: Run; localFirst: Run; first: Run }[] = [];
    for (let round = 0; round < rounds; round++) {
      runs.push({
        local: await alone(promptShort, answerTokens),
        one: await through(1, promptShort, answerTokens),
        eight: await through(together, promptShort, answerTokens),
        localFirst: await alone(promptLong, 1),
        first: await through(1, promptLong, 1),
      });
      const { local: l, one, eight } = runs.at(-1)!;
      log(
        `round ${round + 1}: ${l.wallMs | 0} ms alone, ${one.wallMs | 0} through, ${eight.wallMs | 0} for ${together}`,
      );
    }
    return {
      local: rateOf(runs.map((run) => run.local)),
      network: rateOf(runs.map((run) => run.one)),
      eight: rateOf(runs.map((run) => run.eight)),
      networkShare: median(runs.map(({ local: l, one }) => l.wallMs / one.wallMs)),
      eightTimes: median(runs.map(({ one, eight }) => (together * one.wallMs) / eight.wallMs)),
      firstTokenMs: {
        local: median(runs.map(({ localFirst }) => localFirst.firstMs)),
        network: median(runs.map(({ first }) => first.firstMs)),
      },
      stepMs: median(runs.map(({ one }) => one.wallMs / one.tokens)),
    };
  } finally {
    await client.close();
    await network.stop();
    await executor.close();
    await rm(directory, { recursive: true, force: true });
  }
}

const round = (value: number, digits = 1) => value.toFixed(digits);

export async function generationReport(args: readonly string[], log: (line: string) => void): Promise<string> {
  const rounds = Number(args.find((arg) => /^\d+$/.test(arg)) ?? 5);
  const result = await runGenerationBench(rounds, log);
  const { local, network, eight, firstTokenMs } = result;
  return [
    `Decoder of ${speakerSize.blocks} blocks, width ${speakerSize.heads * speakerSize.headDim}, context ${speakerSize.context}, random weights; prompts of ${promptShort.length} tokens, answers of ${answerTokens}; medians of ${rounds} rounds.`,
    "",
    "| what | tokens/s | CPU ms a token | ratio | target |",
    "|---|---|---|---|---|",
    `| one request, one process, no network | ${round(local.tokensPerSecond)} | ${round(local.cpuMsPerToken)} | | |`,
    `| one request over 2 PNodes | ${round(network.tokensPerSecond)} | ${round(network.cpuMsPerToken)} | ${round(result.networkShare, 2)} of one process | >= 0.70 |`,
    `| ${together} requests over 2 PNodes | ${round(eight.tokensPerSecond)} | ${round(eight.cpuMsPerToken)} | ${round(result.eightTimes, 2)} times one | >= 3 |`,
    `| first token after ${promptLong.length} | | | ${round(firstTokenMs.network, 0)} ms (one process ${round(firstTokenMs.local, 0)} ms; ${promptLong.length} single steps ${round(promptLong.length * result.stepMs, 0)} ms) | prefill cost |`,
  ].join("\n");
}
