// `npm run rounds -- --seeds 300 --first 1 [--mixed]`: the long form of what the tests do briefly. Worlds in which lanes come and go, with
// `--mixed` on machines of several numerics classes: what their records lead to, trained in one place, must have come out. `--seed N` tells
// one world in full.

import { parseArgs } from "node:util";
import { runElastic } from "../simulation/elastic-rounds.ts";

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "300" },
    first: { type: "string", default: "1" },
    seed: { type: "string" },
    mixed: { type: "boolean", default: false },
  },
});

const mixed = values.mixed ? "some" : undefined;
const first = Number(values.seed ?? values.first);
const count = values.seed === undefined ? Number(values.seeds) : 1;
const total = { late: 0, resting: 0, unequal: 0, classes: 0 };
let broken = 0;
for (let seed = first; seed < first + count; seed++) {
  const report = await runElastic(seed, { readable: values.seed !== undefined }, mixed);
  if (values.seed !== undefined) console.log(report.trace);
  for (const name of Object.keys(total) as (keyof typeof total)[]) total[name] += report[name];
  if (report.violations.length > 0) {
    broken++;
    console.log(`seed ${seed} (${report.scenario})`);
    for (const { kind, message } of report.violations.slice(0, 3)) console.log(`  ${kind}: ${message}`);
    console.log(`  replay: npm run rounds -- --seed ${seed}${values.mixed ? " --mixed" : ""}`);
  }
  if (seed % 20 === 0) console.log(`up to seed ${seed}: ${broken} broken`);
}
const { late, resting, unequal, classes } = total;
console.log(
  `${count} seeds, ${broken} broken; lanes: ${late} late, ${resting} resting; rounds: ${unequal} unequal, ${classes} of several classes`,
);
process.exitCode = broken > 0 ? 1 : 0;
