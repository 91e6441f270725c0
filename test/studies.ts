// `npm run studies`: tunes the demo MLP by Hyperband twice, undisturbed and under kills, and compares the tables.

import { isDeepStrictEqual, parseArgs } from "node:util";
import { studies } from "./studies/studies.ts";

const { values } = parseArgs({
  options: {
    trials: { type: "string", default: "27" },
    steps: { type: "string", default: "90" },
    every: { type: "string", default: "10" },
    orchestrators: { type: "string", default: "2" },
    pnodes: { type: "string", default: "3" },
    "kill-every": { type: "string", default: "5" },
    seed: { type: "string", default: "1" },
  },
});

const { calm, stormy } = await studies({
  trials: Number(values.trials),
  steps: Number(values.steps),
  every: Number(values.every),
  orchestrators: Number(values.orchestrators),
  pnodes: Number(values.pnodes),
  killEveryMs: 1_000 * Number(values["kill-every"]),
  seed: Number(values.seed),
  print: (line) => console.log(line),
});
const same = isDeepStrictEqual(calm, stormy);
console.log(same ? "the same table and winner" : `DIFFERENT TABLES: ${JSON.stringify({ calm, stormy })}`);
process.exit(same ? 0 : 1);
