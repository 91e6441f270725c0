// `npm run byzantine -- --seeds 300 --first 1 [--answers]`: the long form of what the tests do briefly. Worlds in which some machines lie; what is
// final must be right wherever that can be promised, and nobody who is honest may be blamed. `--seed N` tells one world in full
// (with `--lanes` one whose session has lanes).

import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";
import { describeFigures } from "../simulation/checks/trust-figures.ts";
import { simulateSeeds } from "../simulation/pool.ts";
import { runSeed } from "../simulation/run.ts";

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "300" },
    first: { type: "string", default: "1" },
    seed: { type: "string" },
    lanes: { type: "boolean", default: false },
    answers: { type: "boolean", default: false },
    workers: { type: "string", default: String(Math.max(1, availableParallelism())) },
  },
});

/** Where machines lie while they train, or while they answer. */
const kind = values.answers ? { answers: true } : { byzantine: true };
if (values.seed !== undefined) {
  const { trace, scenario, violations } = await runSeed(Number(values.seed), {
    ...kind,
    lanes: values.lanes,
    readable: true,
  });
  console.log(trace);
  console.log(scenario);
  for (const { kind, atMs, message } of violations) console.log(`${kind} at ${atMs.toFixed(0)} ms: ${message}`);
  process.exitCode = violations.length > 0 ? 1 : 0;
} else {
  const seeds = Array.from({ length: Number(values.seeds) }, (_, index) => Number(values.first) + index);
  const started = process.cpuUsage();
  const report = await simulateSeeds({ seeds, kind, workers: Number(values.workers) });
  const { user, system } = process.cpuUsage(started);
  const { divergences, hangs, others, failures, virtualHours } = report;
  for (const { seed, scenario, violations } of failures) {
    console.log(`seed ${seed} (${scenario})`);
    for (const { kind, message } of violations.slice(0, 3)) console.log(`  ${kind}: ${message}`);
    console.log(`  replay: npm run byzantine -- --seed ${seed}${values.answers ? " --answers" : ""}`);
  }
  console.log(
    `${report.seeds} seeds, ${virtualHours.toFixed(1)} virtual hours, ${((user + system) / 1e6).toFixed(0)} CPU s`,
  );
  console.log(`${divergences} divergences, ${hangs} hangs, ${others} other violations`);
  if (report.trust) for (const line of describeFigures(report.trust)) console.log(line);
  process.exitCode = divergences + hangs + others > 0 ? 1 : 0;
}
