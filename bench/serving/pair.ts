// A model and a draft for it that are both real: the demo's network and one of its blocks alone, trained on the same book. How often the draft
// says what the model says is then measured and not assumed, and what that brings over long ways follows in virtual time (latency.ts).

import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ensureDataset } from "../../src/cli/content/builtin.ts";
import { demoRate } from "../../src/cli/content/demo-rate.ts";
import { LocalNetwork } from "../../src/cli/machine/local-network.ts";
import { packagePath } from "../../src/cli/machine/software.ts";
import { openOutput } from "../../src/cli/shown/output.ts";
import { Client } from "../../src/client/client.ts";
import { pause } from "../lab.ts";
import { crowds, hops, latencyCells, type Scene } from "./latency.ts";

/** The demo's context is 64. */
const [promptTokens, answerTokens] = [16, 46];

/** Blocks of the demo's network that the draft keeps. */
const draftBlocks = 1;
const demoBlocks = 4;

/** What the model says to different beginnings, and what each draft says at every place of that. */
interface Pair {
  readonly texts: readonly (readonly number[])[];
  readonly drafts: ReadonlyMap<string, readonly (readonly number[])[]>;
}

/** The demo's definition with its first blocks alone. */
export function draftDefinition(demo: string): string {
  const isOfLaterBlock = (line: string) => {
    const numbers = Array.from(line.matchAll(/\b[a-z_]+_(\d)\b/g), ([, number]) => Number(number));
    return numbers.some((number) => number > draftBlocks);
  };
  return demo
    .replace(/^name: .*$/m, "name: gpt-demo-draft")
    .replaceAll(`from: ffn_join_${demoBlocks}, to: head_norm`, `from: ffn_join_${draftBlocks}, to: head_norm`)
    .split("\n")
    .filter((line) => !/^ {2}- /.test(line) || !isOfLaterBlock(line))
    .join("\n");
}

async function trained(client: Client, definition: string, steps: number): Promise<string> {
  const { id: network } = await client.networks.create(definition);
  const { id } = await client.sessions.create({
    ...{ network, dataset: "moby-dick", steps: BigInt(steps), batch: 16, microbatches: 4, seed: 1n, clipNorm: 1 },
    learningRate: { ...demoRate, warmupSteps: BigInt(demoRate.warmupSteps) },
  });
  for (;;) {
    const { status } = await client.sessions.get(id);
    if (status === "done") return id;
    if (status === "failed") throw new Error("the training of the pair failed");
    await pause(500);
  }
}

async function measuredPair(steps: number, log: (line: string) => void): Promise<Pair> {
  const directory = await mkdtemp(join(tmpdir(), "dcnr-pair-"));
  const options = { directory, listen: "127.0.0.1:0", pnodes: 1, cpusPerPNode: 2, logLevel: "error" };
  const network = await LocalNetwork.start(options);
  const client = new Client(network.orchestrator.address, { fetch });
  const next = async (
    model: string,
    prompt: readonly number[] | string,
    maxTokens: number,
    temperature: number,
    seed = 1,
  ) => {
    const tokens: number[] = [];
    for await (const piece of client.generate(model, prompt, { maxTokens, temperature, seed }))
      tokens.push(...piece.tokens);
    return tokens;
  };
  try {
    await ensureDataset(client, "moby-dick", openOutput(process.env, true));
    const demo = readFileSync(packagePath("examples/gpt-demo.yaml"), "utf8");
    log("training the model");
    const learnt = await trained(client, demo, steps);
    const { name: model } = await client.models.serve(learnt);
    log("training its draft");
    const { name: small } = await client.models.serve(await trained(client, draftDefinition(demo), steps));
    const texts: number[][] = [];
    for (let seed = 1; seed <= Math.max(...crowds); seed++) {
      const prompt = await next(model, "The ", promptTokens, 1, seed);
      texts.push([...prompt, ...(await next(model, prompt, answerTokens, 0))]);
    }
    log(`${texts.length} answers of ${model}`);
    const said = (draft: string) =>
      Promise.all(
        texts.map(async (text) => {
          const tokens: number[] = text.slice(0, promptTokens);
          for (let place = promptTokens; place < text.length; place++)
            tokens.push(...(await next(draft, text.slice(0, place), 1, 0)));
          return tokens;
        }),
      );
    const drafts = new Map([["a draft of one block", await said(small)]]);
    await client.models.stop(model);
    await client.models.serve(learnt, { weights: "4bit" });
    drafts.set("the model itself in 4 bits", await said(model));
    return { texts, drafts };
  } finally {
    await client.close();
    await network.stop();
    await rm(directory, { recursive: true, force: true });
  }
}

export async function pairTable(steps: number, log: (line: string) => void): Promise<string> {
  const { texts, drafts } = await measuredPair(steps, log);
  const places = texts.flatMap((text, i) =>
    text.slice(promptTokens).map((token, at) => ({ token, i, place: promptTokens + at })),
  );
  const lines: string[] = [];
  for (const [name, says] of [["nobody but the text", undefined] as const, ...drafts]) {
    const agreed = says && places.filter(({ token, i, place }) => says[i]?.[place] === token).length / places.length;
    for (const hopMs of hops) {
      const cells: string[] = [];
      for (const crowd of crowds) {
        const draft = says && ((text: number, place: number) => says[text]?.[place] ?? 0);
        const scene: Scene = { texts: texts.slice(0, crowd), promptTokens, draft };
        cells.push(await latencyCells(hopMs, scene));
      }
      lines.push(
        `| ${name} | ${agreed === undefined ? "" : `${(100 * agreed).toFixed(0)} %`} | ${hopMs} ms | ${cells.join(" | ")} |`,
      );
      log(lines.at(-1) as string);
    }
  }
  const heads = crowds.map((crowd) => `${crowd} at once, tokens/s | with guesses | times`);
  return [
    `Real answers over long ways, in the same virtual time: the demo's network and one of its ${demoBlocks} blocks as its draft, both trained for ${steps} steps on the same book; ${texts.length} beginnings of ${promptTokens} tokens, greedy answers of ${answerTokens}. Agreement is measured at every place of every answer (>= 2 times at 100 ms for one reader).`,
    "",
    `| who guesses | agrees | between machines | ${heads.join(" | ")} |`,
    `|---|---|---|${crowds.map(() => "---|---|---|").join("")}`,
    ...lines,
  ].join("\n");
}
