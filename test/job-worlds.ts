// `npm run job-worlds -- --seeds 100 --jobs 24`: jobs of all kinds in simulated worlds, seed after seed. Ends with the first world in
// which something that must hold did not, and says which seed it was.

import { parseArgs } from "node:util";
import { runJobWorld } from "../simulation/jobs/job-world.ts";

const { values } = parseArgs({
  options: {
    "first-seed": { type: "string", default: "1" },
    seeds: { type: "string", default: "100" },
    jobs: { type: "string", default: "24" },
  },
});
const first = Number(values["first-seed"]);
const jobs = Number(values.jobs);
let done = 0;
let preemptions = 0;
for (let seed = first; seed < first + Number(values.seeds); seed++) {
  const report = await runJobWorld(seed, { jobs, patienceMs: 1_800_000 + jobs * 10_000 });
  done += report.done;
  preemptions += report.preemptions;
  if (report.violations.length > 0) {
    console.error(`seed ${seed}: ${report.violations.join("\n")}`);
    process.exit(1);
  }
  const kinds = Object.entries(report.kinds).map(([kind, count]) => `${count} ${kind}`);
  console.log(`seed ${seed}: ${kinds.join(", ")}; ${report.preemptions} gave way`);
}
console.log(`${done} jobs in ${values.seeds} worlds, ${preemptions} gave way: all ended as if nobody had died`);
