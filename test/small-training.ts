// A training session that takes a second: a tiny network on data that needs no download. For tests about
// everything around the training.

import type { SessionSettingsInit } from "../src/client/calls/sessions.ts";
import type { Client } from "../src/client/client.ts";
import { addSamples } from "../src/client/samples.ts";
import type { Session } from "../src/protocol/gen/dcnr/v1/session_pb.ts";

export const smallNetwork = `
name: small
nodes:
  - { id: hidden, type: linear, config: { in_dim: 2, out_dim: 8, optimizer: adam } }
  - { id: bend, type: tanh }
  - { id: output, type: linear, config: { in_dim: 8, out_dim: 2, optimizer: adam } }
  - { id: loss, type: cost, config: { cost_function: ce_logits } }
edges:
  - { from: hidden, to: bend }
  - { from: bend, to: output }
  - { from: output, to: loss }
outputs: [{ name: logits, node_id: output }]
costs: [{ name: loss, node_id: loss }]
`;

/** Which of two numbers is larger; 32 samples. */
export function smallSamples(): { inputs: number[][]; labels: number[] } {
  const inputs = Array.from({ length: 32 }, (_, index) => [(index % 8) / 8, Math.floor(index / 4) / 8]);
  return { inputs, labels: inputs.map(([a = 0, b = 0]) => (a > b ? 1 : 0)) };
}

export async function trainOnInlineData(client: Client, settings: { steps: number }): Promise<Session> {
  const { id: network } = await client.networks.create(smallNetwork, { id: "small" });
  await addSamples(client, "pairs", smallSamples());
  const asked: SessionSettingsInit = {
    ...{ network, dataset: "pairs", split: "all", batch: 8, microbatches: 2, seed: 1n, numerics: "native" },
    steps: BigInt(settings.steps),
    checkpointEvery: 4,
    spread: 2,
    learningRate: { schedule: "constant", base: 0.01 },
  };
  const created = await client.sessions.create(asked);
  return ended(client, created.id);
}

export async function ended(client: Client, id: string): Promise<Session> {
  for await (const update of client.sessions.watch(id)) {
    const session = update.session;
    if (session && ["done", "failed"].includes(session.status)) return session;
  }
  return client.sessions.get(id);
}
