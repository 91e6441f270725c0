// Runs the tests: `unit` (beside the code), `check` (format, types and those), `integration`, files that are named, or everything that
// guards the project.
// Unit tests share two processes; the others start servers and processes and get one each, two at a time. What each of those took is
// told at the end, so that it shows where the time goes.

import { spawn } from "node:child_process";
import { existsSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative, resolve } from "node:path";
import { run as runTests } from "node:test";
import { spec } from "node:test/reporters";
import { cacheFolder } from "../bin/newer-node.js";
import { tellingMeasured } from "../src/cli/machine/measured.ts";

/** As `dcnr` itself does: code that one process has compiled is not compiled by hundreds of others. */
process.env["NODE_COMPILE_CACHE"] ??= join(cacheFolder(), "compiled");

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
    start(process.execPath, [join(import.meta.dirname, "unit-tests.mjs"), ...files], index === 0 ? "shown" : "kept"),
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
/** The longest go first, so that none of them is left alone at the end. */
const longest = ["simulation", "mutants", "package", "install", "webgpu/session", "capacity/process", "docs", "homes"];

function longestFirst(files: readonly string[]): string[] {
  const first = longest.map((name) => `test/${name}.test.ts`).filter((file) => files.includes(file));
  return [...first, ...files.filter((file) => !first.includes(file))];
}

/** CPU seconds by file, as test-cost.mjs has noted them. */
function costsIn(notes: string): Map<string, number> {
  const lines = existsSync(notes) ? readFileSync(notes, "utf8").trim().split("\n") : [];
  return new Map(
    lines.map((line) => JSON.parse(line) as { file: string; cpu: number }).map(({ file, cpu }) => [file, cpu]),
  );
}

const toldFiles = 25;
/** A file that hangs ends then; hundreds of worlds beside other work take more than the ten minutes of an idle machine. */
const fileMsMax = 1_800_000;

/**
 * Hundreds of processes start the same program: it is bundled for them as it is for the package, which a PNode loads in less than half the CPU
 * time that the sources take. bin/dcnr.js hears of it by the environment.
 */
async function bundled<T>(run: () => Promise<T>): Promise<T> {
  const { bundle } = await import("./bundle.ts");
  const dist = join(import.meta.dirname, "..", "dist");
  mkdirSync(dist, { recursive: true });
  const folder = mkdtempSync(join(dist, "tests-"));
  try {
    await bundle(folder);
    process.env["DCNR_TEST_PROGRAM"] = join(folder, "src", "cli", "main.js");
    return await run();
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Most of them wait for processes of their own more than they compute. */
async function acrossProcesses(): Promise<boolean> {
  console.log("\n== integration and end to end");
  const files = longestFirst(whole).map((file) => resolve(file));
  const folder = mkdtempSync(join(tmpdir(), "dcnr-costs-"));
  const notes = join(folder, "costs");
  // Two hundred PNodes would each find out the same of this machine.
  Object.assign(process.env, await tellingMeasured(folder));
  process.env["DCNR_TEST_COSTS"] = notes;
  const took = new Map<string, number>();
  let holds = true;
  const names = ["test-light.mjs", "test-cost.mjs", "test-state.mjs"];
  const before = names.map((name) => new URL(name, import.meta.url).href);
  const execArgv = [...process.execArgv, ...before.flatMap((file) => ["--import", file])];
  const stream = runTests({ files, concurrency: 2, timeout: fileMsMax, execArgv });
  stream.on("test:fail", () => {
    holds = false;
  });
  stream.on("test:summary", ({ file, duration_ms: durationMs, success }) => {
    holds &&= success;
    if (file !== undefined) took.set(file, durationMs / 1000);
  });
  for await (const text of stream.compose(new spec())) process.stdout.write(text as string);
  const costs = costsIn(notes);
  const cpuOf = (file: string) => costs.get(file) ?? 0;
  const all = [...costs.values()].reduce((sum, cpu) => sum + cpu, 0);
  console.log(`\nCPU seconds with all that a file has started, and seconds: ${all.toFixed(0)} in ${took.size} files`);
  for (const [file, seconds] of [...took].sort(([one], [other]) => cpuOf(other) - cpuOf(one)).slice(0, toldFiles))
    console.log(`  ${cpuOf(file).toFixed(0).padStart(5)}  ${seconds.toFixed(0).padStart(5)}  ${relative(".", file)}`);
  return holds && took.size > 0;
}

function runScope(): Promise<boolean> {
  if (scope.endsWith(".ts")) {
    const patience = `--test-timeout=${minutesMostNamed * 60_000}`;
    const files = process.argv.slice(2);
    const named = () => run("tests", process.execPath, ...nodeTest(files, patience));
    return files.some((file) => /^(\.\/)?test\//.test(file)) ? bundled(named) : named();
  }
  if (scope === "unit") return besideTheCode();
  const across = () => bundled(acrossProcesses);
  if (scope === "integration") return across();
  return scope === "check" ? quick() : all(quick, across);
}

process.exit((await runScope()) ? 0 : 1);
