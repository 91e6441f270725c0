// Runs the tests: `unit` (beside the code), `check` (format, types and those), files that are named, or everything that
// guards the project.
// Unit tests share one process; the others start servers and processes and get one each.

import { spawnSync } from "node:child_process";
import { globSync } from "node:fs";

const scope = process.argv[2] ?? "all";
const unit = globSync(["src/**/*.test.ts", "simulation/**/*.test.ts", "web/**/*.test.ts"]).sort();
const whole = globSync(["test/**/*.test.ts"]).sort();

function run(title: string, command: string, args: string[]): boolean {
  console.log(`\n== ${title}`);
  const result = spawnSync(command, args, {
    stdio: "inherit",
    env: {
      ...process.env,
      ORT_DISABLE_TELEMETRY: "1",
      NO_COLOR: process.env["CI"] ? "1" : (process.env["NO_COLOR"] ?? ""),
    },
  });
  return result.status === 0;
}

function nodeTest(title: string, files: string[], ...flags: string[]): boolean {
  if (files.length === 0) return true;
  return run(title, process.execPath, ["--test", "--test-timeout=600000", ...flags, ...files]);
}

const beside = () => nodeTest("unit tests", unit, "--test-isolation=none");
const quick = () =>
  [run("format and lint", "biome", ["check", "."]), run("types", "tsc", ["-p", "."]), beside()].every(Boolean);
const everything = () =>
  [quick(), nodeTest("integration and end to end", whole, "--test-concurrency=1")].every(Boolean);

function runScope(): boolean {
  if (scope.endsWith(".ts")) return nodeTest("tests", process.argv.slice(2));
  if (scope === "unit") return beside();
  return scope === "check" ? quick() : everything();
}

process.exit(runScope() ? 0 : 1);
