// Datasets: put samples there that a program holds in memory, look at them, remove them.
// Run it against `dcnr up`: node examples/sdk/datasets.ts [ADDRESS] with Node 24; in a clone as examples/README.md says.

import { addSamples, connect } from "dcnr";

const client = connect(process.argv[2]);

// Points of a square; the label says whether a point lies in the circle within it.
const inputs = Array.from({ length: 400 }, (_, i) => [((i % 20) - 9.5) / 10, (Math.floor(i / 20) - 9.5) / 10]);
const labels = inputs.map(([x = 0, y = 0]) => (x * x + y * y < 0.8 ? 1 : 0));
const dataset = await addSamples(client, "my-circle", { inputs, labels }, { validationShare: 0.2 });
console.log(`${dataset.name}: ${dataset.samples} samples, splits ${dataset.splits.map(({ name }) => name).join(", ")}`);

for (const { index, fields } of await client.datasets.samples("my-circle", 0, 2))
  console.log(`sample ${index}: ${Object.keys(fields).join(", ")}`);
console.log((await client.datasets.list()).map(({ name }) => name));

await client.datasets.delete("my-circle");
await client.close();
