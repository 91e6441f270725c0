// `npm run bench -- rounds`: what rounds cost in quality and save in bytes. Trains a network on Moby Dick in one process, by the production
// numerics and processes of all lanes: once with every gradient added up, and once in rounds, on as many samples. A run of 2,000 steps takes an
// hour or more, so it can be done in pieces: `-- rounds --seed 2 --row` trains one seed and keeps nothing.

import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { create } from "@bufbuild/protobuf";
import { trainInOnePlace } from "../simulation/golden/train.ts";
import { demoRate } from "../src/cli/content/demo-rate.ts";
import { fail } from "../src/core/errors.ts";
import { buildMobyDickTokens } from "../src/data/imports/moby-dick.ts";
import { openExecutor } from "../src/engine/pool/threads.ts";
import { compileText } from "../src/network/compile.ts";
import type { SessionIdentity } from "../src/network/settings/session.ts";
import { policyOf } from "../src/orchestrator/sessions/settings.ts";
import { type SessionSettings, SessionSettingsSchema } from "../src/protocol/gen/dcnr/v1/session_pb.ts";
import { openMemoryBlobs } from "../src/store/memory.ts";
import { type Trained, trained } from "./lab.ts";
import { laneTraffic, roundsOverSteps, storedPerStep } from "./lane-traffic.ts";

const lanes = 4;
/** A microbatch for each lane. */
const samplesOfLane = 4;
const validationMicrobatches = 64;

interface Course {
  readonly definition: string;
  /** Steps in which lanes learn, in rounds as together. */
  readonly steps: number;
  readonly every: number;
  readonly after: number;
  readonly workers: number;
}

interface Losses {
  readonly seed: number;
  readonly together: number;
  readonly rounds: number;
}

/** The validation loss of the weights that all lanes come to. */
async function lossOf(course: Course, seed: number, sync: SessionIdentity["sync"], steps: number): Promise<number> {
  const { definition } = course;
  const { inputs } = compileText(definition);
  if (inputs?.below === undefined) fail("invalid_argument", "the network does not read tokens");
  const blobs = openMemoryBlobs().datasets;
  const { manifest } = await buildMobyDickTokens(blobs, inputs.below);
  const executor = await openExecutor({ kind: "native", workers: course.workers });
  try {
    const scenario = {
      ...{ name: "rounds", definition, steps, batch: lanes * samplesOfLane, microbatches: lanes, lanes, clipNorm: 1 },
      // Only the last one is looked at.
      ...{ data: { kind: "tokens" as const, tokens: 0, vocabulary: inputs.below }, validateEvery: steps },
      ...(sync && { sync }),
    };
    const { validationLosses } = await trainInOnePlace(scenario, executor, {
      stored: { manifest, fetchBlob: (hash) => blobs.get(hash) },
      settings: { seed, learningRate: demoRate },
      validation: { split: "train", validationSplit: "validation", validationMicrobatches },
    });
    return validationLosses.at(-1) ?? Number.NaN;
  } finally {
    await executor.close();
  }
}

async function lossesOf(course: Course, seed: number, log: (line: string) => void): Promise<Losses> {
  const { every, after } = course;
  const count = Math.max(1, Math.round((course.steps - after) / every));
  const learned = after + count * every;
  const together = await lossOf(course, seed, undefined, learned);
  log(`seed ${seed}: ${together.toFixed(4)} after ${learned} steps together`);
  // At the end of each round lanes take a step in which nobody learns.
  const rounds = await lossOf(course, seed, { every, after }, learned + count);
  log(`seed ${seed}: ${rounds.toFixed(4)} with ${count} rounds of ${every} after ${after} steps together`);
  return { seed, together, rounds };
}

function trafficRow(network: Trained, every: number, after: number): string {
  const { title, definition } = trained[network];
  const plan = compileText(definition());
  const traffic = laneTraffic(plan, lanes);
  const asked = (syncEvery: number): SessionSettings => create(SessionSettingsSchema, { lanes, syncEvery });
  const times = { steps: after + 100 * (every + 1), sync: { every, after } };
  const stored = (syncEvery: number) => storedPerStep(traffic, { ...times, ...policyOf(asked(syncEvery), plan) });
  const perSample = (bytes: number) => Math.round(bytes / (lanes * samplesOfLane)).toLocaleString("en");
  const share = 1 / roundsOverSteps(traffic, every);
  const cells = [
    ...[title, perSample(traffic.stepBytes), perSample(traffic.roundBytes / every), `1/${share.toFixed(0)}`],
    ...[perSample(stored(0)), perSample(stored(every))],
  ];
  return `| ${cells.join(" | ")} |`;
}

export async function roundsReport(args: readonly string[], log: (line: string) => void): Promise<string> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      network: { type: "string" },
      seed: { type: "string" },
      seeds: { type: "string", default: "3" },
      steps: { type: "string", default: "2000" },
      every: { type: "string", default: "50" },
      after: { type: "string", default: "200" },
      workers: { type: "string", default: "1" },
      ...{ dry: { type: "boolean" }, row: { type: "boolean" } },
    },
  });
  const [every, after, steps] = [Number(values.every), Number(values.after), Number(values.steps)];
  const definition =
    values.network === undefined ? trained["gpt-demo"].definition() : readFileSync(values.network, "utf8");
  const course = { definition, steps, every, after, workers: Number(values.workers) };
  const first = Number(values.seed ?? 1);
  const count = values.seed === undefined ? Number(values.seeds) : 1;
  const rows: Losses[] = [];
  for (let seed = first; seed < first + count; seed++) rows.push(await lossesOf(course, seed, log));
  const percent = (ratio: number) => `${ratio >= 1 ? "+" : ""}${(100 * (ratio - 1)).toFixed(2)} %`;
  const mean = rows.reduce((sum, { rounds, together }) => sum + rounds / together / rows.length, 0);
  return [
    `${lanes} lanes with ${samplesOfLane} samples each, rounds of ${every} steps after ${after} together, what is exchanged in eight bits; ${steps} steps, Moby Dick, ${validationMicrobatches * samplesOfLane} samples of its last tenth.`,
    "",
    "| seed | validation loss, every gradient added up | in rounds | against it (at most +2 %) |",
    "|---:|---:|---:|---:|",
    ...rows.map(
      ({ seed, together, rounds }) =>
        `| ${seed} | ${together.toFixed(4)} | ${rounds.toFixed(4)} | ${percent(rounds / together)} |`,
    ),
    ...(rows.length > 1 ? [`| mean | | | ${percent(mean)} |`] : []),
    "",
    `What a machine with one of ${lanes} lanes sends, by the plan, in bytes a sample; states as often as is usual, as if each lane had its own whole.`,
    "",
    "| network | gradients, every step | what a round taught | of that (at most 1/150) | states, every step | states, in rounds |",
    "|---|---:|---:|---:|---:|---:|",
    trafficRow("gpt-demo", every, after),
    trafficRow("t1", every, after),
  ].join("\n");
}
