// Two lanes on two PNodes against one lane on one, one worker each: how much faster twice the machines are. Each lane computes
// as much in a step as the one does. The two take turns every few seconds, so that whatever else the machine does hits both.

import { fail } from "../src/core/errors.ts";
import { Lab, type Stretch, trained } from "./lab.ts";
import { median } from "./side.ts";

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

export async function lanesReport(args: readonly string[], log: (line: string) => void): Promise<string> {
  // A busy machine needs longer turns.
  const [turns, seconds] = [Number(args[0] ?? 9), Number(args[1] ?? 4)];
  const row = await runLanesBench({ turns, windowMs: 1_000 * seconds }, log);
  return [
    `The demo GPT in two lanes on two PNodes against one lane on one, one worker each, ${microbatchesOfLane} microbatches of`,
    `${trained[network].samples} samples a lane and step; both took turns of ${seconds} seconds, ${turns} times. Target: at least 1.85 times the samples a second.`,
    "",
    "| samples a second, times those of one lane | CPU time of a sample, times that in one lane | samples a second |",
    "|---|---|---|",
    `| ${row.faster.toFixed(2)} | ${row.cpuShare.toFixed(2)} | ${row.samplesPerSecond.toFixed(0)} |`,
  ].join("\n");
}
