// An orchestrator that relays and one process that computes, for tests of tabs that join them.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Child, startChild, stopChild } from "../../src/cli/machine/processes.ts";
import type { SessionSettingsInit } from "../../src/client/calls/sessions.ts";
import { Client } from "../../src/client/client.ts";
import { addSamples } from "../../src/client/samples.ts";
import { smallSamples } from "../small-training.ts";

const layers = 6;
const network = `
name: layers
nodes:
  - { id: layer_0, type: linear, config: { in_dim: 2, out_dim: 16, optimizer: adam } }
${Array.from({ length: layers - 2 }, (_, i) => `  - { id: layer_${i + 1}, type: linear, config: { in_dim: 16, out_dim: 16, optimizer: adam } }`).join("\n")}
  - { id: layer_${layers - 1}, type: linear, config: { in_dim: 16, out_dim: 2, optimizer: adam } }
  - { id: loss, type: cost, config: { cost_function: ce_logits } }
edges:
${Array.from({ length: layers - 1 }, (_, i) => `  - { from: layer_${i}, to: layer_${i + 1} }`).join("\n")}
  - { from: layer_${layers - 1}, to: loss }
outputs: [{ name: logits, node_id: layer_${layers - 1} }]
costs: [{ name: loss, node_id: loss }]
`;

export const steps = 48;
export const settings: SessionSettingsInit = {
  ...{ network: "layers", dataset: "pairs", split: "all", batch: 8, microbatches: 2, seed: 1n, numerics: "portable" },
  steps: BigInt(steps),
  checkpointEvery: 6,
  spread: 4,
  learningRate: { schedule: "constant", base: 0.01 },
};
export interface Fleet {
  readonly client: Client;
  readonly orchestrator: Child;
}

export async function withFleet<T>(run: (fleet: Fleet) => Promise<T>): Promise<T> {
  const directory = await mkdtemp(join(tmpdir(), "dcnr-tabs-"));
  const started: Child[] = [];
  try {
    const words = ["orchestrator", "--listen", "127.0.0.1:0", "--dir", join(directory, "o"), "--relay"];
    const orchestrator = await startChild("the orchestrator", words);
    started.push(orchestrator);
    const place = ["--dir", join(directory, "p"), "--cpus", "1", "--wait"];
    started.push(await startChild("maple", ["join", orchestrator.address, "--name", "maple", ...place]));
    const client = new Client(orchestrator.address, { fetch });
    await client.networks.create(network, { id: "layers" });
    await addSamples(client, "pairs", smallSamples());
    return await run({ client, orchestrator });
  } finally {
    await Promise.all(started.map((child) => stopChild(child, 3_000)));
    await rm(directory, { recursive: true, force: true });
  }
}
