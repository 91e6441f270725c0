// What a GPU gives: the time of a step beside the native engine's on the same machine, the bytes that a step moves over the bus, the share of
// time on the device, and how far the losses are apart. `npm run bench -- devices [--software] [--engines A,B] [--steps N] [--microbatches N] [--network FILE]`.

import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { parseArgs, promisify } from "node:util";
import { softwareGpus } from "../test/webgpu/software-gpu.ts";
import type { SideResult } from "./devices-side.ts";

const side = fileURLToPath(new URL("./devices-side.ts", import.meta.url));

export async function devicesReport(args: readonly string[], log: (line: string) => void): Promise<string> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      software: { type: "boolean", default: false },
      engines: { type: "string", default: "portable,exact,webgpu,exact-webgpu" },
      steps: { type: "string", default: "20" },
      microbatches: { type: "string", default: "2" },
      network: { type: "string", default: fileURLToPath(new URL("../examples/gpt-demo.yaml", import.meta.url)) },
    },
  });
  const given = (kind: string) => [side, kind, values.steps, values.network, values.microbatches];
  const run = async (kind: string, environment: Readonly<Record<string, string>> = {}): Promise<SideResult> => {
    log(`${kind}: ${values.steps} steps`);
    const options = { env: { ...process.env, ...environment }, maxBuffer: 1 << 26 };
    const { stdout } = await promisify(execFile)(process.execPath, given(kind), options);
    return JSON.parse(stdout.trim().split("\n").at(-1) ?? "") as SideResult;
  };
  const native = await run("native");
  const gpus = values.software ? await softwareGpus() : [{ name: "this machine's GPU", environment: {} }];
  const rows = [row("native", native, native)];
  const engines = values.engines.split(",");
  const asked = (kind: string) => engines.includes(kind);
  for (const kind of ["portable", "exact"].filter(asked)) rows.push(row(kind, await run(kind), native));
  for (const { name, environment } of gpus)
    for (const kind of ["webgpu", "exact-webgpu"].filter(asked))
      rows.push(row(`${kind === "webgpu" ? "webgpu" : "exact"} on ${name}`, await run(kind, environment), native));
  return [
    "| engine | class | first step | step (median) | of native's | up a step | down a step | time on the device | most there | there after | losses differ by at most | weights |",
    "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ...rows,
    "",
    `${values.steps} steps of ${values.network.split("/").at(-1)}, ${values.microbatches} microbatches of four samples, all VNodes on one executor. "weights" is the hash of all weights and moments at the end: exact numerics have one everywhere.`,
  ].join("\n");
}

function row(name: string, result: SideResult, native: SideResult): string {
  const [first = 0] = result.stepMs;
  const own = median(result.stepMs.slice(1));
  const later = result.stepMs.slice(1).reduce((sum, ms) => sum + ms, 0);
  const isHere = result.residentMost === 0;
  const cells = [
    name,
    `\`${result.class}\``,
    `${first.toFixed(0)} ms`,
    `${own.toFixed(0)} ms`,
    result === native ? "1" : (own / median(native.stepMs.slice(1))).toFixed(2),
    ...(isHere
      ? ["", "", "", "", ""]
      : [
          megabytes(result.up),
          megabytes(result.down),
          `${Math.round((100 * result.busyMs) / later)} %`,
          megabytes(result.residentMost),
          megabytes(result.residentAfter),
        ]),
    Math.max(...result.losses.map((loss, i) => Math.abs(loss - (native.losses[i] ?? Number.NaN)))).toExponential(1),
    `\`${result.weights}\``,
  ];
  return `| ${cells.join(" | ")} |`;
}

function median(numbers: readonly number[]): number {
  const sorted = [...numbers].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(2)} MB`;
}
