// 1,000 VNodes whose 50 PNodes die together, re-assigned by production orchestrators on virtual time: how long it
// takes there, and how much real CPU time the code needs for it, store writes and pushes included.

import { storeData } from "../simulation/maintainer.ts";
import { scenarios } from "../simulation/scenarios.ts";
import { manifestText } from "../src/data/manifest.ts";
import type { VNodeRecord } from "../src/orchestrator/records/vnodes.ts";
import { DatasetService } from "../src/protocol/gen/dcnr/v1/data_pb.ts";
import { NetworkService } from "../src/protocol/gen/dcnr/v1/network_pb.ts";
import { SessionService } from "../src/protocol/gen/dcnr/v1/session_pb.ts";
import { Stage } from "../test/control/stage.ts";

export interface FailoverBench {
  readonly vnodes: number;
  readonly pnodesLost: number;
  /** From the deaths to the last new assignment, the grace of 400 ms included. */
  readonly virtualMs: number;
  readonly cpuMs: number;
}

/** A long chain: every VNode is one linear layer. */
export function longNetwork(layers: number): string {
  const ids = Array.from({ length: layers }, (_, i) => `n${i}`);
  return [
    "name: long",
    "nodes:",
    ...ids.map((id) => `  - { id: ${id}, type: linear, config: { in_dim: 4, out_dim: 4, optimizer: sgd } }`),
    "  - { id: out, type: linear, config: { in_dim: 4, out_dim: 3, optimizer: sgd } }",
    "  - { id: loss, type: cost, config: { cost_function: ce_logits } }",
    "edges:",
    ...ids.slice(1).map((id, i) => `  - { from: n${i}, to: ${id} }`),
    `  - { from: ${ids.at(-1)}, to: out }`,
    "  - { from: out, to: loss }",
    "costs: [{ name: loss, node_id: loss, slot_id: 0 }]",
    "",
  ].join("\n");
}

export async function runFailoverBench(layers = 1_200, pnodes = 60, dying = 50): Promise<FailoverBench> {
  const stage = new Stage();
  await stage.orchestrator("o1");
  const nodes = Array.from({ length: pnodes }, (_, i) => stage.pnode(`p${i}`));
  await stage.until("all attach", () => nodes.every((one) => one.attachedTo !== ""));
  const manifest = await storeData((scenarios[0] as (typeof scenarios)[number]).data, stage.blobs);
  await stage.call(DatasetService.method.createDataset, { name: "data", manifest: manifestText(manifest) });
  await stage.call(NetworkService.method.createNetwork, { definition: longNetwork(layers) });
  const { session } = await stage.call(SessionService.method.createSession, {
    start: true,
    settings: {
      network: "long",
      dataset: "data",
      split: "all",
      steps: 100n,
      batch: 4,
      microbatches: 2,
      numerics: "reference",
    },
  });
  const hosted = () => nodes.reduce((sum, one) => sum + (one.host.alive ? one.hosted.size : 0), 0);
  const total = session?.vnodes as number;
  await stage.until("all VNodes are hosted", () => hosted() >= total);
  const victims = nodes.slice(0, dying);
  const lost = victims.reduce((sum, one) => sum + one.hosted.size, 0);
  const began = process.cpuUsage();
  const diedMs = stage.nowMs;
  for (const victim of victims) victim.kill();
  await stage.until("all VNodes are hosted again", () => hosted() >= total, 120_000);
  const virtualMs = stage.nowMs - diedMs;
  const { user, system } = process.cpuUsage(began);
  const dead = new Set(victims.map((one) => one.id));
  const owners = (await stage.vnodes(session?.id as string)).map(
    (record: VNodeRecord) => record.members[0]?.pnode as string,
  );
  if (owners.some((owner) => dead.has(owner))) throw new Error("a VNode is still on a PNode that died");
  await stage.stop();
  return {
    vnodes: lost,
    pnodesLost: dying,
    virtualMs: Math.round(virtualMs),
    cpuMs: Math.round((user + system) / 1000),
  };
}

if (process.argv[1]?.endsWith("failover.ts")) console.log(JSON.stringify(await runFailoverBench(), null, 2));
