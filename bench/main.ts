// `npm run bench -- NAME ...`: runs a benchmark, prints its table and keeps it as a section of bench/results.md.

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { availableParallelism, cpus } from "node:os";
import { join } from "node:path";

/** A benchmark writes Markdown; what it logs on the way is for the person who waits. */
type Benchmark = (args: readonly string[], log: (line: string) => void) => Promise<string>;

const benchmarks: Readonly<Record<string, { title: string; load: () => Promise<Benchmark> }>> = {
  control: { title: "Control plane", load: async () => (await import("./control.ts")).controlReport },
  compute: { title: "Compute", load: async () => (await import("./compute.ts")).computeReport },
  dashboard: { title: "Dashboard", load: async () => (await import("./dashboard.ts")).dashboardReport },
  generation: { title: "Generation", load: async () => (await import("./generation.ts")).generationReport },
  data: { title: "Data", load: async () => (await import("./data.ts")).dataReport },
  devices: { title: "Devices", load: async () => (await import("./devices.ts")).devicesReport },
  encryption: { title: "Encryption", load: async () => (await import("./encryption.ts")).encryptionReport },
  gate: { title: "The gate", load: async () => (await import("./gate.ts")).gateReport },
  hashing: { title: "Hashing", load: async () => (await import("./hashing.ts")).hashingReport },
  floods: { title: "Floods", load: async () => (await import("./floods.ts")).floodsReport },
  footprint: { title: "Footprint", load: async () => (await import("./footprint.ts")).footprintReport },
  lanes: { title: "Lanes", load: async () => (await import("./lanes.ts")).lanesReport },
  lies: { title: "Lies", load: async () => (await import("./lies.ts")).liesReport },
  ledger: { title: "Ledger", load: async () => (await import("./ledger.ts")).ledgerReport },
  membership: { title: "Membership", load: async () => (await import("./membership.ts")).membershipReport },
  jobs: { title: "Jobs", load: async () => (await import("./jobs.ts")).jobsReport },
  network: { title: "Network", load: async () => (await import("./network.ts")).networkReport },
  relay: { title: "Relay", load: async () => (await import("./relay.ts")).relayReport },
  recovery: { title: "Recovery", load: async () => (await import("./recovery.ts")).recoveryReport },
  rounds: { title: "Rounds", load: async () => (await import("./rounds.ts")).roundsReport },
  serving: { title: "Serving", load: async () => (await import("./serving/serving.ts")).servingReport },
  scale: { title: "Scale", load: async () => (await import("./scale.ts")).scaleReport },
  tuning: { title: "Tuning", load: async () => (await import("./tuning.ts")).tuningReport },
  trust: { title: "Trust", load: async () => (await import("./trust.ts")).trustReport },
  wan: { title: "Home links", load: async () => (await import("./wan.ts")).wanReport },
  tokenizer: { title: "Tokenizer", load: async () => (await import("./tokenizer.ts")).tokenizerReport },
};

const resultsFile = join(import.meta.dirname, "results.md");

function commit(): string {
  try {
    return execFileSync("git", ["rev-parse", "--short", "HEAD"], { encoding: "utf8" }).trim();
  } catch {
    return "unknown";
  }
}

/** Replaces the section of that title, or adds it at the end. */
function keep(title: string, body: string): void {
  const before = existsSync(resultsFile) ? readFileSync(resultsFile, "utf8") : "# Results of `npm run bench`\n";
  const sections = before.split(/^(?=## )/m).map((section) => section.trimEnd());
  const old = sections.findIndex((section) => section.startsWith(`## ${title}\n`));
  sections.splice(old < 0 ? sections.length : old, 1, `## ${title}\n\n${body}`);
  writeFileSync(resultsFile, `${sections.join("\n\n")}\n`);
}

const [name = "", ...args] = process.argv.slice(2);
const benchmark = benchmarks[name];
if (benchmark === undefined) {
  console.error(`npm run bench -- NAME, where NAME is one of: ${Object.keys(benchmarks).join(", ")}`);
  process.exit(2);
}
const report = await (await benchmark.load())(args, (line) => console.error(line));
const day = new Date().toISOString().slice(0, 10);
const machine = `${cpus()[0]?.model.trim() ?? "unknown CPU"}, ${availableParallelism()} cores, Node ${process.versions.node}`;
const body = `${day}, commit ${commit()}, ${machine}.\n\n${report}`;
console.log(body);
// A single row does not replace the section that holds all of them.
if (!args.includes("--dry") && !args.includes("--row")) keep(benchmark.title, body);
