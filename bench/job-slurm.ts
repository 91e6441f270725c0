// A real Slurm beside us, where one is installed: how fast it takes jobs, and how fast short ones go through its two nodes.

import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { freePort } from "../test/capacity/scenario.ts";
import { slurmMissing, startSlurm } from "../test/capacity/slurm-cluster.ts";

const run = promisify(execFile);
const single = 30;
const together = 200;

/** Rows of what and how many a second. */
export async function slurmRows(): Promise<[what: string, measured: string][]> {
  const missing = await slurmMissing();
  if (missing !== undefined) return [["Slurm in the same run", missing]];
  const folder = mkdtempSync(join(tmpdir(), "dcnr-bench-slurm-"));
  const cluster = await startSlurm(folder, await freePort());
  const env = { ...process.env, ...cluster.environment };
  const job = ["--output=/dev/null", "--mem=10", "--time=5", "--wrap=true"];
  const perSecond = (count: number, sinceMs: number) =>
    `${(count / ((performance.now() - sinceMs) / 1000)).toFixed(1)}/s`;
  try {
    let beganMs = performance.now();
    for (let one = 0; one < single; one++) await run("sbatch", job, { env });
    const submitted = perSecond(single, beganMs);
    beganMs = performance.now();
    await run("sbatch", ["--wait", `--array=1-${together}`, ...job], { env });
    return [
      ["Slurm in the same run: submissions, one sbatch a job", submitted],
      [
        `the same: ${together} jobs of an array started and ended on two nodes of 8 cores`,
        perSecond(together, beganMs),
      ],
    ];
  } finally {
    await cluster.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}
