// Two lanes on two PNodes against one lane on one, one worker each: how much faster twice the machines are. Each lane computes
// as much in a step as the one does. The two take turns every few seconds, so that whatever else the machine does hits both.

import type { Scenario } from "../simulation/scenarios.ts";
import { fail } from "../src/core/errors.ts";
import { compileText } from "../src/network/compile.ts";
import { parametersOf } from "../src/network/memory.ts";
import { Lab, type Stretch, type Trained, trained } from "./lab.ts";
import { median } from "./side.ts";
import { type Link, virtualStepMs } from "./wan.ts";

interface Turn {
  readonly one: Stretch;
  readonly two: Stretch;
}

const network = "gpt-demo";
const lanes = 2;
const microbatchesOfLane = 8;

interface Options {
  readonly turns: number;
  readonly windowMs: number;
}

export interface LanesRow {
  /** Samples a second of two lanes over those of one: the median of turns. */
  readonly faster: number;
  /** CPU time of a sample in two lanes over that in one. */
  readonly cpuShare: number;
  readonly samplesPerSecond: number;
}

export async function runLanesBench(
  { turns, windowMs }: Options = { turns: 9, windowMs: 4_000 },
  log: (line: string) => void = () => {},
): Promise<LanesRow> {
  const labs = { one: await Lab.open(1, 1), two: await Lab.open(lanes, 1) };
  try {
    for (const lab of Object.values(labs)) await lab.prepare(network);
    const share = { batch: trained[network].samples * microbatchesOfLane, microbatches: microbatchesOfLane };
    const all = { batch: lanes * share.batch, microbatches: lanes * share.microbatches };
    const one = await labs.one.ready(network, { ...share, checkpointEvery: 20 });
    const two = await labs.two.ready(network, { ...all, lanes, spread: lanes, checkpointEvery: 20 });
    const measured: Turn[] = [];
    for (let turn = 0; turn < turns; turn++) {
      measured.push({ one: await labs.one.window(one, windowMs), two: await labs.two.window(two, windowMs) });
      log(JSON.stringify(measured.at(-1)));
    }
    return rowOf(measured, all.batch);
  } finally {
    for (const lab of Object.values(labs)) await lab.close();
  }
}

function rowOf(turns: readonly Turn[], batch: number): LanesRow {
  const isSlow = turns.some(({ one, two }) => one.steps === 0 || two.steps === 0);
  if (isSlow)
    fail("failed_precondition", "the machine is too busy: no step ended in one of the turns, give them longer");
  const sum = (side: keyof Turn, what: keyof Stretch) => turns.reduce((total, turn) => total + turn[side][what], 0);
  const speed = ({ steps, wallMs }: Stretch) => steps / wallMs;
  const cpuOf = (side: keyof Turn) => sum(side, "cpuMs") / sum(side, "steps");
  return {
    faster: lanes * median(turns.map(({ one, two }) => speed(two) / speed(one))),
    cpuShare: cpuOf("two") / cpuOf("one") / lanes,
    samplesPerSecond: (1000 * batch * sum("two", "steps")) / sum("two", "wallMs"),
  };
}

/** Weights of the demo GPT in two linear layers: what lanes add up is as long, and hardly takes time to compute here. */
function twoLayers(lanesOfIt: number, steps: number): Scenario {
  const width = Math.round(parameters(network) / 12);
  const definition = [
    "name: two-layers",
    "nodes:",
    `  - { id: first, type: linear, config: { in_dim: 4, out_dim: ${width}, optimizer: sgd } }`,
    `  - { id: second, type: linear, config: { in_dim: ${width}, out_dim: 7, optimizer: sgd, bias: false } }`,
    "  - { id: loss, type: cost, config: { cost_function: ce_logits } }",
    "edges: [{ from: first, to: second }, { from: second, to: loss }]",
    "costs: [{ name: loss, node_id: loss }]",
    "",
  ].join("\n");
  const fields = [
    { name: "inputs", dtype: "float32", shape: [4] },
    { name: "labels", dtype: "int32", shape: [] },
  ] as const;
  const microbatches = lanesOfIt * microbatchesOfLane;
  return {
    ...{ name: "two-layers", definition, data: { kind: "tensors", samples: 256, fields }, steps },
    ...{ batch: microbatches, microbatches, lanes: lanesOfIt, validateEvery: 0, clipNorm: 0 },
  };
}

function parameters(name: Trained): number {
  return compileText(trained[name].definition()).vnodes.reduce((sum, vnode) => sum + parametersOf(vnode), 0);
}

/** What a third of the network takes for a microbatch, as measured once: the ratio follows from it. */
const runMs = 5;

/** Samples a second of two lanes on two machines over those of one on one, on virtual time: it asks for no idle cores. */
export async function virtuallyFaster(link: Link): Promise<number> {
  const one = await virtualStepMs((steps) => twoLayers(1, steps), { machines: 1, link, runMs });
  const two = await virtualStepMs((steps) => twoLayers(lanes, steps), { machines: lanes, link, runMs });
  return (lanes * one) / two;
}

export async function lanesReport(args: readonly string[], log: (line: string) => void): Promise<string> {
  // A busy machine needs longer turns.
  const [turns, seconds] = [Number(args[0] ?? 9), Number(args[1] ?? 4)];
  const row = await runLanesBench({ turns, windowMs: 1_000 * seconds }, log);
  const links = [1_000, 10_000].map((megabits) => ({ roundTripMs: 1, megabits }));
  const virtually = await Promise.all(links.map(virtuallyFaster));
  return [
    `The demo GPT in two lanes on two PNodes against one lane on one, one worker each, ${microbatchesOfLane} microbatches of`,
    `${trained[network].samples} samples a lane and step; both took turns of ${seconds} seconds, ${turns} times. Target: at least 1.85 times the samples a second.`,
    "",
    "| samples a second, times those of one lane | CPU time of a sample, times that in one lane | samples a second |",
    "|---|---|---|",
    `| ${row.faster.toFixed(2)} | ${row.cpuShare.toFixed(2)} | ${row.samplesPerSecond.toFixed(0)} |`,
    "",
    `Where both machines and the orchestrator share as few cores as this one has, the first says little, and the CPU time more. On virtual time, with as many weights and ${microbatchesOfLane} microbatches of ${3 * 2 * runMs} ms:`,
    "",
    "| link between the two | samples a second, times those of one lane |",
    "|---|---|",
    ...links.map(({ megabits }, at) => `| ${megabits / 1_000} Gbit/s, 1 ms | ${virtually[at]?.toFixed(2)} |`),
  ].join("\n");
}
