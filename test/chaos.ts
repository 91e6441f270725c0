// `npm run chaos -- --minutes 20`: kills real processes for a while and prints what it cost and whether any bit changed.
// With lanes: `npm run chaos -- --lanes 4 --memory 512MB --sync-every 10 --sync-after 20`; with `--elastic` lanes come and go, and what comes
// out must be what the records of their rounds lead to.

import { parseArgs } from "node:util";
import { chaos } from "./chaos/chaos.ts";

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "5" },
    interval: { type: "string", default: "5" },
    steps: { type: "string", default: "300" },
    orchestrators: { type: "string", default: "3" },
    pnodes: { type: "string", default: "8" },
    seed: { type: "string", default: "1" },
    lanes: { type: "string", default: "1" },
    "sync-every": { type: "string", default: "0" },
    "sync-after": { type: "string", default: "0" },
    elastic: { type: "boolean", default: false },
    memory: { type: "string" },
  },
});

const report = await chaos({
  orchestrators: Number(values.orchestrators),
  pnodes: Number(values.pnodes),
  steps: Number(values.steps),
  intervalMs: Number(values.interval) * 1000,
  kills: 0,
  durationMs: Number(values.minutes) * 60_000,
  seed: Number(values.seed),
  lanes: {
    lanes: Number(values.lanes),
    ...{ syncEvery: Number(values["sync-every"]), syncAfter: BigInt(values["sync-after"]) },
    ...(values.elastic && { elastic: "on" as const }),
  },
  ...(values.memory === undefined ? {} : { memory: values.memory }),
  print: (line) => console.log(line),
});

const { recoveryMs, stepsPerSecond } = report;
const retained = (100 * stepsPerSecond.disturbed) / stepsPerSecond.undisturbed;
console.log(`signals     ${report.kills} SIGKILL, ${report.stops} SIGSTOP, ${report.rounds} rounds`);
console.log(
  `recovery    p50 ${ms(recoveryMs.p50)}, p90 ${ms(recoveryMs.p90)}, p99 ${ms(recoveryMs.p99)} (${recoveryMs.count} PNodes hit)`,
);
console.log(
  `throughput  ${stepsPerSecond.disturbed.toFixed(2)} steps/s of ${stepsPerSecond.undisturbed.toFixed(2)} undisturbed: ${retained.toFixed(0)} % retained`,
);
console.log(
  report.wrongRoots.length === 0
    ? `root        ${values.elastic ? "what the records lead to" : report.root} in every round`
    : `WRONG ROOTS ${report.wrongRoots.join(", ")}, expected ${report.root}`,
);
process.exit(report.wrongRoots.length === 0 ? 0 : 1);

function ms(value: number): string {
  return `${(value / 1000).toFixed(1)} s`;
}
