// `npm run bench -- wan`: a step of two stages on two machines with a home link between them, on virtual time and with
// the production code of PNodes and orchestrators. Numbers are computed by the reference engine; how long that takes and
// what the link carries is given, so the result depends on no machine.

import { calmRun, fleetOf } from "../simulation/draw.ts";
import { NetworkRun } from "../simulation/network-run.ts";
import type { Scenario } from "../simulation/scenarios.ts";
import { compileText } from "../src/network/compile.ts";
import { parametersOf } from "../src/network/memory.ts";
import type { SessionRecord } from "../src/orchestrator/records/sessions.ts";
import { type Trained, trained } from "./lab.ts";

export interface Link {
  /** There and back. */
  readonly roundTripMs: number;
  readonly megabits: number;
}

interface Work {
  readonly name: string;
  /** Of the activations of one microbatch; its gradients have as many. */
  readonly bytes: number;
  /** Of one forward or backward pass of one stage. */
  readonly runMs: number;
  readonly microbatches: number;
  readonly precision?: string;
}

/** What a stage of each takes was measured once; the ratios follow from it. */
const gpt: Work = { name: "demo GPT", bytes: 128 << 10, runMs: 8, microbatches: 16 };
const t1: Work = { name: "T1", bytes: 512 << 10, runMs: 150, microbatches: 4 };

const rowsOfMicrobatch = 4;
const stepsBefore = 4;
const stepsMeasured = 12;

/** Two stages with one wide edge between them; what stands behind it stays with the second. */
export function scenarioOf({ bytes, microbatches, precision }: Work, steps: number): Scenario {
  const width = bytes / 4 / rowsOfMicrobatch;
  const definition = [
    "name: two-stages",
    ...(precision === undefined ? [] : [`activation_precision: ${precision}`]),
    "nodes:",
    `  - { id: first, type: linear, config: { in_dim: 4, out_dim: ${width}, optimizer: sgd } }`,
    `  - { id: second, type: linear, config: { in_dim: ${width}, out_dim: 3, optimizer: sgd, colocate_group: end, colocate_policy: required } }`,
    "  - { id: loss, type: cost, config: { cost_function: ce_logits, colocate_group: end, colocate_policy: required } }",
    "edges:",
    "  - { from: first, from_slot: 0, to: second, to_slot: 0 }",
    "  - { from: second, from_slot: 0, to: loss, to_slot: 0 }",
    "costs: [{ name: loss, node_id: loss, slot_id: 0 }]",
    "",
  ].join("\n");
  const fields = [
    { name: "inputs", dtype: "float32", shape: [4] },
    { name: "labels", dtype: "int32", shape: [] },
  ] as const;
  return {
    ...{ name: "two-stages", definition, data: { kind: "tensors", samples: 256, fields }, steps },
    ...{ batch: rowsOfMicrobatch * microbatches, microbatches, validateEvery: 0, clipNorm: 0 },
  };
}

export interface VirtualFleet {
  readonly machines: number;
  readonly link: Link;
  /** Of one pass of one VNode. */
  readonly runMs: number;
}

async function virtualMs(scenario: Scenario, { machines, link, runMs }: VirtualFleet): Promise<number> {
  const policy = { checkpointEvery: 100, replicas: 1, spread: machines };
  const settings = {
    ...calmRun(scenario, fleetOf(machines, 1), policy),
    ...{ computeMs: runMs, workers: 1, vnodesPerPNode: 100 },
    ...{ delayMs: link.roundTripMs / 2, bytesPerMs: (link.megabits * 1e6) / 8 / 1_000 },
    ...{ windowBytes: 16 << 20, retainedBytesMax: 1 << 30, statePartBytes: 16 << 20 },
  };
  const run = new NetworkRun(1, settings, () => undefined, {});
  let doneMs = Number.NaN;
  // Whoever waits for the session looks every two seconds, which is longer than some steps take.
  run.onWrite<SessionRecord>("session/", ({ status }) => {
    if (status === "done" && Number.isNaN(doneMs)) doneMs = run.nowMs;
  });
  const [violation] = (await run.finish()).violations;
  if (violation !== undefined) throw new Error(`${scenario.name}: ${violation.message}`);
  return doneMs;
}

/** Of a step in the middle, on machines with one worker each. */
export async function virtualStepMs(scenario: (steps: number) => Scenario, fleet: VirtualFleet): Promise<number> {
  const all = await virtualMs(scenario(stepsBefore + stepsMeasured), fleet);
  return (all - (await virtualMs(scenario(stepsBefore), fleet))) / stepsMeasured;
}

/** Over what the slower stage computes. */
export async function overCompute(work: Work, link: Link): Promise<number> {
  const { runMs } = work;
  const tookMs = await virtualStepMs((steps) => scenarioOf(work, steps), { machines: 2, link, runMs });
  return tookMs / (work.microbatches * 2 * runMs);
}

/** As usual for one lane. */
const checkpointEvery = 20;

/** States are stored beside it, and not in these figures: how long a machine's take on its uplink, and the steps between two of them. */
function statesSentence(work: Work, network: Trained, { megabits }: Link): string {
  const { vnodes } = compileText(trained[network].definition());
  // Weights and two moments, on two machines.
  const bytes = vnodes.reduce((sum, vnode) => sum + 3 * 4 * parametersOf(vnode), 0) / 2;
  const [sendS, computeS] = [
    (8 * bytes) / (megabits * 1e6),
    (checkpointEvery * work.microbatches * 2 * work.runMs) / 1_000,
  ];
  const longer = sendS > computeS ? "which then is what a step waits for" : "beside the activations";
  return `${work.name}: ${(bytes / 1e6).toFixed(1)} MB a machine every ${checkpointEvery} steps, ${sendS.toFixed(1)} s of ${megabits} Mbit/s while ${computeS.toFixed(1)} s are computed, ${longer}.`;
}

export async function wanReport(_args: readonly string[], log: (line: string) => void): Promise<string> {
  const rows: [Work, Link, string][] = [
    [gpt, { roundTripMs: 1, megabits: 1_000 }, ""],
    [gpt, { roundTripMs: 20, megabits: 100 }, ""],
    [gpt, { roundTripMs: 100, megabits: 100 }, "<= 1.35"],
    [{ ...gpt, microbatches: 4 }, { roundTripMs: 100, megabits: 100 }, ""],
    [t1, { roundTripMs: 100, megabits: 20 }, ""],
    [{ ...t1, precision: "int8" }, { roundTripMs: 100, megabits: 20 }, "<= 1.15"],
    [{ ...gpt, precision: "int8" }, { roundTripMs: 100, megabits: 20 }, ""],
  ];
  const lines: string[] = [];
  for (const [work, link, target] of rows) {
    log(`${work.name} over ${link.roundTripMs} ms and ${link.megabits} Mbit/s`);
    const ratio = await overCompute(work, link);
    const travels = work.precision ?? "float32";
    lines.push(
      `| ${work.name} | ${work.microbatches} x ${work.bytes >> 10} KB, ${travels} | ${link.roundTripMs} ms, ${link.megabits} Mbit/s | ${ratio.toFixed(2)} | ${target} |`,
    );
  }
  return [
    "Two stages on two machines with one worker each, virtual time, production code; the time of a step over what one stage computes in it.",
    "",
    "| network | microbatches | link, round trip | step / compute | target |",
    "|---|---|---|---|---|",
    ...lines,
    "",
    "States are stored on their way, and are not in these figures, where no step of the middle stores one.",
    statesSentence(gpt, "gpt-demo", { roundTripMs: 100, megabits: 100 }),
    statesSentence(t1, "t1", { roundTripMs: 100, megabits: 20 }),
  ].join("\n");
}
