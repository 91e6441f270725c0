// `npm run bench -- scale`: what one orchestrator pays for each PNode and each VNode while the fleet grows, with production
// code on virtual time and PNodes that do everything but compute. Figures are CPU time of the whole simulated world, so what
// counts is whether a row stays flat. Writes to the store are counted as they are.

import { storeData } from "../simulation/maintainer.ts";
import { scenarios } from "../simulation/scenarios.ts";
import { manifestText } from "../src/data/manifest.ts";
import { timingsDefault } from "../src/orchestrator/timings.ts";
import { DatasetService } from "../src/protocol/gen/dcnr/v1/data_pb.ts";
import { NetworkService } from "../src/protocol/gen/dcnr/v1/network_pb.ts";
import { SessionService } from "../src/protocol/gen/dcnr/v1/session_pb.ts";
import type { ActingPNode } from "../test/control/acting-pnode.ts";
import { Stage } from "../test/control/stage.ts";
import { longNetwork } from "./failover.ts";

const sizes = [100, 1_000, 10_000];
const vnodesOfSession = 50;
/** A session for so many PNodes, so that the share of them that works is the same in every fleet. */
const pnodesPerSession = 100;
/** As often as orchestrators ask for by themselves: PNodes that say less are taken for lost. */
const heartbeatMs = timingsDefault.heartbeatIntervalMs;
const stepMs = 1_000;
const checkpointEvery = 20;
/** Until nothing is left of the beginning. */
const settleMs = 10_000;
const steadyMs = 20_000;
const lookMs = 100;

export interface ScaleRow {
  readonly pnodes: number;
  readonly vnodes: number;
  readonly attachUs: number;
  readonly placeUs: number;
  readonly steadyUsPerPNodeSecond: number;
  readonly writesPerSessionStep: number;
}

/** CPU time that `work` takes, in microseconds. */
async function cpuUs(work: () => Promise<void>): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return user + system;
}

async function createSessions(stage: Stage, count: number): Promise<void> {
  const manifest = await storeData((scenarios[0] as (typeof scenarios)[number]).data, stage.blobs);
  await stage.call(DatasetService.method.createDataset, { name: "data", manifest: manifestText(manifest) });
  await stage.call(NetworkService.method.createNetwork, { definition: longNetwork(vnodesOfSession - 1) });
  for (let index = 0; index < count; index++)
    await stage.call(SessionService.method.createSession, {
      start: true,
      settings: {
        ...{ network: "long", dataset: "data", split: "all", steps: 100_000n, seed: BigInt(index) },
        ...{ batch: 4, microbatches: 2, numerics: "reference", checkpointEvery },
      },
    });
}

/** The least step that every VNode of every session has reached, by what its PNode has been told to host. */
function stepsOf(nodes: readonly ActingPNode[]): number {
  let sum = 0;
  for (const node of nodes) for (const { step } of node.hosted.values()) sum += step;
  return sum / vnodesOfSession;
}

/** Looks at all PNodes: before every event that would be most of what is measured. */
function nowAndThen(stage: Stage, isReached: () => boolean): () => boolean {
  let nextMs = 0;
  return () => {
    if (stage.nowMs < nextMs) return false;
    nextMs = stage.nowMs + lookMs;
    return isReached();
  };
}

export async function runScale(pnodes: number): Promise<ScaleRow> {
  const stage = new Stage();
  await stage.orchestrator("o1");
  const nodes: ActingPNode[] = [];
  const attached = await cpuUs(async () => {
    for (let index = 0; index < pnodes; index++) nodes.push(stage.pnode(`p${index}`, { heartbeatMs, stepMs }));
    await stage.until(
      "all attach",
      nowAndThen(stage, () => nodes.every((one) => one.attachedTo !== "")),
      600_000,
    );
  });
  const sessions = pnodes / pnodesPerSession;
  const vnodes = sessions * vnodesOfSession;
  const hosted = () => nodes.reduce((sum, one) => sum + one.hosted.size, 0);
  const placed = await cpuUs(async () => {
    await createSessions(stage, sessions);
    await stage.until(
      "all VNodes are hosted",
      nowAndThen(stage, () => hosted() === vnodes),
      600_000,
    );
  });
  await stage.pass(settleMs);
  const [writes, steps] = [stage.writes, stepsOf(nodes)];
  const steady = await cpuUs(() => stage.pass(steadyMs));
  const row = {
    ...{ pnodes, vnodes },
    attachUs: attached / pnodes,
    placeUs: placed / vnodes,
    steadyUsPerPNodeSecond: steady / pnodes / (steadyMs / 1_000),
    writesPerSessionStep: (stage.writes - writes) / Math.max(1, stepsOf(nodes) - steps),
  };
  await stage.stop();
  return row;
}

export async function scaleReport(args: readonly string[], log: (line: string) => void): Promise<string> {
  const rows: ScaleRow[] = [];
  for (const size of args.includes("--quick") ? sizes.slice(0, 2) : sizes) {
    log(`${size} PNodes`);
    rows.push(await runScale(size));
  }
  return [
    `One orchestrator; a session of ${vnodesOfSession} VNodes for every ${pnodesPerSession} PNodes, a step a second, checkpoints every ${checkpointEvery} steps, heartbeats every ${heartbeatMs / 1_000} s.`,
    "CPU time includes the simulated PNodes and wires.",
    "",
    "| PNodes | VNodes | to attach a PNode | to place a VNode | a PNode's second, its VNodes included | writes to the store for a session's step |",
    "|---:|---:|---:|---:|---:|---:|",
    ...rows.map(
      (row) =>
        `| ${row.pnodes} | ${row.vnodes} | ${row.attachUs.toFixed(0)} µs | ${row.placeUs.toFixed(0)} µs | ${row.steadyUsPerPNodeSecond.toFixed(0)} µs | ${row.writesPerSessionStep.toFixed(1)} |`,
    ),
  ].join("\n");
}
