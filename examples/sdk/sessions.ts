// Sessions: train a network on samples of your own, follow it live, read its loss and its step root.
// Run it against `dcnr up`: node examples/sdk/sessions.ts [ADDRESS] with Node 24; in a clone as examples/README.md says.

import { addSamples, connect } from "dcnr";

const client = connect(process.argv[2]);

const definition = `
name: circle
nodes:
  - { id: hidden, type: linear, config: { in_dim: 2, out_dim: 32, optimizer: adam } }
  - { id: bend, type: tanh }
  - { id: output, type: linear, config: { in_dim: 32, out_dim: 2, optimizer: adam } }
  - { id: loss, type: cost, config: { cost_function: ce_logits } }
edges:
  - { from: hidden, to: bend }
  - { from: bend, to: output }
  - { from: output, to: loss }
outputs: [{ name: logits, node_id: output }]
costs: [{ name: loss, node_id: loss }]
`;
const inputs = Array.from({ length: 400 }, (_, i) => [((i % 20) - 9.5) / 10, (Math.floor(i / 20) - 9.5) / 10]);
const labels = inputs.map(([x = 0, y = 0]) => (x * x + y * y < 0.8 ? 1 : 0));

const network = await client.networks.create(definition, { id: "my-circle-network" });
await addSamples(client, "my-circle-samples", { inputs, labels }, { validationShare: 0.2 });

const session = await client.sessions.create({
  network: network.id,
  dataset: "my-circle-samples",
  split: "train",
  validationSplit: "validation",
  steps: 60n,
  batch: 32,
  microbatches: 2,
  seed: 1n,
  numerics: "native",
  checkpointEvery: 20,
  validateEvery: 30,
  learningRate: { schedule: "constant", base: 0.05 },
});

// Live, until it is done: progress, events such as a lost PNode, and why anything waits.
for await (const { session: now, events } of client.sessions.watch(session.id)) {
  for (const event of events) console.log(event.message);
  if (now?.status === "done" || now?.status === "failed") break;
}

const done = await client.sessions.get(session.id);
console.log(`${done.status} after ${done.step} steps, validation accuracy ${done.validationAccuracy.toFixed(2)}`);
const losses = await client.sessions.metrics(session.id, ["loss"]);
console.log(`loss from ${losses[0]?.value.toFixed(3)} to ${losses.at(-1)?.value.toFixed(3)}`);
// Whoever runs the same session, on whatever machines and through whatever failures, gets the same root.
console.log(`step root ${done.stepRoot}`);
await client.close();
