// Training speed on one thread against PyTorch, side by side in one run: the two take turns, so that whatever else the
// machine does hits both. CPU time is compared, not wall time; the ratio is the median over the turns.

import { existsSync } from "node:fs";
import { join } from "node:path";
import { openNativeEngine } from "../src/engine/onnx/native.ts";
import { openExecutor } from "../src/engine/pool/threads.ts";
import type { GraphModel } from "../src/graph/model.ts";
import { type Measurement, median, Side } from "./side.ts";
import { type Workload, workloads } from "./workloads.ts";

const here = import.meta.dirname;

/** The peer's interpreter: DCNR_BENCH_PYTHON, else a virtual environment `.venv` in the clone. */
function findPython(): string | undefined {
  const candidates = [process.env["DCNR_BENCH_PYTHON"], join(here, "..", ".venv", "bin", "python")];
  return candidates.find((path) => path !== undefined && existsSync(path));
}

interface Row {
  readonly workload: Workload;
  readonly ours: readonly Measurement[];
  readonly peer: readonly Measurement[];
  readonly portable: readonly Measurement[];
  /** onnxruntime-web: what the portable engine has to beat. */
  readonly web: readonly Measurement[];
}

async function measure(workload: Workload, python: string | undefined, turns: number, log: Log): Promise<Row> {
  const side = (kind: string) => Side.start(process.execPath, [join(here, "compute-side.ts"), workload.name, kind]);
  const peer =
    python === undefined
      ? undefined
      : await Side.start(python, [join(here, "peers", "torch_compute.py"), workload.name], {
          OMP_WAIT_POLICY: "PASSIVE",
          OMP_NUM_THREADS: "1",
        });
  const [ours, portable, web] = [await side("native"), await side("portable"), await side("onnxruntime-web")];
  const sides = { ours, portable, web, ...(peer && { peer }) };
  const none = (): Measurement[] => [];
  const row = { workload, ours: none(), peer: none(), portable: none(), web: none() };
  for (const each of Object.values(sides)) await each.run(3);
  for (let turn = 0; turn < turns; turn++)
    for (const [name, each] of Object.entries(sides) as [keyof typeof sides, Side][]) {
      const isSlow = name === "portable" || name === "web";
      const steps = isSlow ? Math.max(1, Math.ceil(workload.steps / 3)) : workload.steps;
      row[name].push(await each.run(steps));
    }
  for (const each of Object.values(sides)) await each.stop();
  log(
    `${workload.title}: ${cpuMs(row.ours).toFixed(1)} ms a step${peer ? `, PyTorch ${cpuMs(row.peer).toFixed(1)} ms` : ""}`,
  );
  return row;
}

type Log = (line: string) => void;

const cpuMs = (measurements: readonly Measurement[]) => median(measurements.map((measurement) => measurement.cpuMs));

/** The median of the turns' ratios: each turn compares neighbours in time. */
function ratio(a: readonly Measurement[], b: readonly Measurement[]): string {
  if (a.length === 0 || b.length === 0) return "-";
  return median(a.map((measurement, turn) => measurement.cpuMs / b[turn]!.cpuMs)).toFixed(2);
}

function render(rows: readonly Row[]): string {
  const lines = [
    "| one training step, 1 thread | CPU ms | PyTorch CPU ms | ratio (at most 1.00) | portable / native (at most 2.0) | onnxruntime-web / native | resident MB: native, portable, onnxruntime-web, PyTorch |",
    "|---|---|---|---|---|---|---|",
  ];
  for (const { workload, ours, peer, portable, web } of rows) {
    const peerMs = peer.length > 0 ? cpuMs(peer).toFixed(1) : "not installed";
    const speeds = [cpuMs(ours).toFixed(1), peerMs, ratio(ours, peer), ratio(portable, ours), ratio(web, ours)];
    const resident = [ours, portable, web, peer].map((each) => each.at(-1)?.rssMb.toFixed(0) ?? "-").join(", ");
    lines.push(`| ${[workload.title, ...speeds, resident].join(" | ")} |`);
  }
  return lines.join("\n");
}

const small: GraphModel = {
  name: "small",
  inputs: [{ name: "x", dtype: "float32", shape: [16] }],
  outputs: [{ name: "y", dtype: "float32", shape: [16] }],
  nodes: [{ op: "Add", name: "y", inputs: ["x", "x"], outputs: ["y"], attributes: {} }],
  constants: {},
};

/** CPU time of a call through an executor's worker beyond that of the engine itself. */
async function callOverhead(): Promise<number> {
  const calls = 3000;
  const x = { dtype: "float32" as const, shape: [16], data: new Float32Array(16) };
  const cpuOf = async (call: () => Promise<unknown>) => {
    for (let i = 0; i < 500; i++) await call();
    const before = process.cpuUsage();
    for (let i = 0; i < calls; i++) await call();
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1000 / calls;
  };
  const executor = await openExecutor({ kind: "native", workers: 1 });
  executor.register("small", small);
  const whole = await cpuOf(async () => executor.recycle(Object.values(await executor.run("small", { x }))));
  await executor.close();
  const engine = await openNativeEngine();
  const program = await engine.load(small);
  const bare = await cpuOf(() => program.run({ x }));
  await program.release();
  return whole - bare;
}

export async function computeReport(args: readonly string[], log: Log): Promise<string> {
  const turns = args.includes("--quick") ? 3 : 7;
  const chosen = workloads.filter(({ name }) => args.every((arg) => arg.startsWith("--") || arg === name));
  const wanted = chosen.length > 0 ? chosen : workloads.filter(({ name }) => args.includes(name));
  const python = findPython();
  if (python === undefined)
    log("PyTorch is not installed here (set DCNR_BENCH_PYTHON to a Python that has it): our side alone");
  const rows: Row[] = [];
  for (const workload of wanted) rows.push(await measure(workload, python, turns, log));
  const overhead = await callOverhead();
  return `${render(rows)}\n\nOverhead of a call around the engine: ${overhead.toFixed(3)} ms CPU (at most 0.2).`;
}
