// `npm run orphans -- --rounds 20`: kills all orchestrators and then a PNode, again and again, and prints what it cost.

import { parseArgs } from "node:util";
import { percentile } from "./chaos/measure.ts";
import { orphans } from "./orphans/orphans.ts";

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "20" },
    steps: { type: "string", default: "200" },
    orchestrators: { type: "string", default: "2" },
    pnodes: { type: "string", default: "5" },
    seed: { type: "string", default: "1" },
  },
});

const { root, wrongRoots, recoveryMs, keptBytes } = await orphans({
  rounds: Number(values.rounds),
  steps: Number(values.steps),
  orchestrators: Number(values.orchestrators),
  pnodes: Number(values.pnodes),
  seed: Number(values.seed),
  print: (line) => console.log(line),
});

const seconds = (share: number) => (percentile(recoveryMs, share) / 1000).toFixed(1);
if (recoveryMs.length > 0)
  console.log(
    `kill to progress  p50 ${seconds(0.5)} s, p90 ${seconds(0.9)} s, most ${seconds(1)} s (${recoveryMs.length} kills)`,
  );
console.log(`to the crew       ${(keptBytes / 1e6).toFixed(1)} MB for each checkpoint`);
console.log(
  wrongRoots.length === 0 ? `root              ${root} in every round` : `WRONG ROOTS       ${wrongRoots.join(", ")}`,
);
process.exit(wrongRoots.length === 0 ? 0 : 1);
