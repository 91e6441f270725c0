// Runs the tests: `unit` (beside the code), `check` (format, types and those), files that are named, or everything that
// guards the project.
// Unit tests share two processes; the others start servers and processes and get one each, two at a time.

import { spawn } from "node:child_process";
import { globSync } from "node:fs";

const scope = process.argv[2] ?? "all";
const unit = globSync(["src/**/*.test.ts", "simulation/**/*.test.ts", "web/**/*.test.ts"]).sort();
const whole = globSync(["test/**/*.test.ts"]).sort();

interface Ended {
  readonly holds: boolean;
  readonly output: string;
}

function start(command: string, args: readonly string[], output: "shown" | "kept"): Promise<Ended> {
  const { promise, resolve } = Promise.withResolvers<Ended>();
  const child = spawn(command, args, {
    stdio: ["inherit", output === "shown" ? "inherit" : "pipe", output === "shown" ? "inherit" : "pipe"],
    env: {
      ...process.env,
      ORT_DISABLE_TELEMETRY: "1",
      NO_COLOR: process.env["CI"] ? "1" : (process.env["NO_COLOR"] ?? ""),
    },
  });
  const pieces: Buffer[] = [];
  for (const stream of [child.stdout, child.stderr]) stream?.on("data", (piece: Buffer) => pieces.push(piece));
  const ended = (holds: boolean) => resolve({ holds, output: Buffer.concat(pieces).toString() });
  child.on("error", (error) => {
    console.error(`${command}: ${error.message}`);
    ended(false);
  });
  child.on("close", (code) => ended(code === 0));
  return promise;
}

async function run(title: string, command: string, ...args: string[]): Promise<boolean> {
  console.log(`\n== ${title}`);
  return (await start(command, args, "shown")).holds;
}

const minutesMost = 10;
/** Whoever names files watches them, and some of those build and start a whole cluster. */
const minutesMostNamed = 60;

const nodeTest = (files: readonly string[], ...flags: string[]) => [
  ...["--test", `--test-timeout=${minutesMost * 60_000}`],
  ...flags,
  ...files,
];

/** Of each half of the files, one process; what the second prints comes after the first. */
async function besideTheCode(): Promise<boolean> {
  console.log("\n== unit tests");
  const halves = [0, 1].map((half) => unit.filter((_, index) => index % 2 === half));
  const [first, second] = halves.map((files, index) =>
    start(process.execPath, nodeTest(files, "--test-isolation=none"), index === 0 ? "shown" : "kept"),
  ) as [Promise<Ended>, Promise<Ended>];
  const { holds } = await first;
  const other = await second;
  process.stdout.write(other.output);
  return holds && other.holds;
}

async function all(...steps: (() => Promise<boolean>)[]): Promise<boolean> {
  let holds = true;
  for (const step of steps) holds = (await step()) && holds;
  return holds;
}

const quick = () =>
  all(
    () => run("format and lint", "biome", "check", "."),
    () => run("types", "tsc", "-p", "."),
    besideTheCode,
  );
/** Most of them wait for processes of their own more than they compute. */
const acrossProcesses = () =>
  run("integration and end to end", process.execPath, ...nodeTest(whole, "--test-concurrency=2"));

function runScope(): Promise<boolean> {
  if (scope.endsWith(".ts")) {
    const patience = `--test-timeout=${minutesMostNamed * 60_000}`;
    return run("tests", process.execPath, ...nodeTest(process.argv.slice(2), patience));
  }
  if (scope === "unit") return besideTheCode();
  return scope === "check" ? quick() : all(quick, acrossProcesses);
}

process.exit((await runScope()) ? 0 : 1);
