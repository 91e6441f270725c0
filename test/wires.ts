// `npm run wires -- --turns 5`: lets the connections between real processes fail in every way at every moment, as often
// as wanted, and says whether any bit changed and how long anything stood still.

import { parseArgs } from "node:util";
import { disturbWires, everyFault } from "./wire/wires.ts";

const { values } = parseArgs({
  options: {
    turns: { type: "string", default: "2" },
    pnodes: { type: "string", default: "3" },
    steps: { type: "string", default: "60" },
  },
});

const faults = everyFault();
const report = await disturbWires({
  pnodes: Number(values.pnodes),
  steps: Number(values.steps),
  volleys: Array.from({ length: Number(values.turns) }, () => faults).flat(),
  print: (line) => console.log(line),
});
const wrong = report.roots.filter((root) => root !== report.root);
console.log(`faults      ${report.faults} in ${report.roots.length} sessions`);
console.log(`standstill  ${(report.standstillMs / 1000).toFixed(1)} s at most (${report.standstill})`);
console.log(wrong.length === 0 ? `root        ${report.root} in every session` : `WRONG ROOTS ${wrong.join(", ")}`);
process.exit(wrong.length === 0 && report.standstillMs <= 15_000 ? 0 : 1);
