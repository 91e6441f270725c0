// Networks: create one from YAML, look at what became of it, list, delete.
// Run it against `dcnr up`: node examples/sdk/networks.ts [ADDRESS] with Node 24; in a clone as examples/README.md says.

import { readFileSync } from "node:fs";
import { connect, DcnrError } from "dcnr";

const client = connect(process.argv[2]);

const definition = readFileSync(new URL("../conv.yaml", import.meta.url), "utf8");
const network = await client.networks.create(definition, { id: "my-conv" });
console.log(`${network.id}: ${network.parameters} parameters in ${network.vnodes} VNodes`);

for (const { id, name } of await client.networks.list()) console.log(`there is ${id} (${name})`);

// A definition that is wrong is refused with a sentence that names the node.
try {
  await client.networks.create("name: wrong\nnodes: [{ id: a, type: liner }]\n");
} catch (error) {
  if (!(error instanceof DcnrError)) throw error;
  console.log(`refused (${error.code}): ${error.message}`);
}

await client.networks.delete("my-conv");
await client.close();
