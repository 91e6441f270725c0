// Jobs: submissions through the API, decisions with a long queue, starts committed through real stores, and how long jobs
// wait beside a queue that knows nothing but their order and one reservation (EASY backfill), on the same workloads.

import { runQueueWorld } from "../simulation/jobs/queue-world.ts";
import { asEqual, capacityOf, fleetOf, workloadOf } from "../simulation/jobs/workload.ts";
import { decide } from "../src/scheduler/decide.ts";
import { type PendingJob, rulesDefault } from "../src/scheduler/jobs.ts";
import { slurmRows } from "./job-slurm.ts";
import { startsThroughPostgres, startsThroughSqlite } from "./job-starts.ts";
import { submissionsPerSecond } from "./job-submissions.ts";

type Row = [what: string, measured: string, target: string];

const pieces = ["submissions", "decisions", "starts", "slurm", "waits"] as const;

/** `npm run bench -- jobs`, or some pieces of it: `npm run bench -- jobs starts waits`. */
export async function jobsReport(args: readonly string[], log: (line: string) => void): Promise<string> {
  const asked = pieces.filter((piece) => args.includes(piece));
  const does = (piece: (typeof pieces)[number]) => {
    const is = asked.length === 0 || asked.includes(piece);
    if (is) log(piece);
    return is;
  };
  const rows: Row[] = [];
  if (does("submissions")) {
    const submitted = await submissionsPerSecond(300);
    rows.push(
      [
        "submissions of training jobs through the API, one client, one job a call (SQLite)",
        `${submitted.single}/s`,
        "",
      ],
      ["the same, 50 jobs a call", `${submitted.batch}/s`, ""],
      ["the same, 16 calls of one job at a time", `${submitted.together}/s`, ""],
    );
  }
  if (does("decisions")) rows.push(...decisionRows());
  if (does("starts")) {
    rows.push(["starts committed: room, quota, job, owner (SQLite)", await startsThroughSqlite(), ">= 500/s"]);
    rows.push(["the same (PostgreSQL)", await startsThroughPostgres(), ">= 500/s"]);
  }
  if (does("slurm")) for (const [what, measured] of await slurmRows()) rows.push([what, measured, ""]);
  const measured = rows.length > 0 ? [table(["what", "measured", "target"], rows), ""] : [];
  if (!does("waits")) return measured.join("\n");
  return [
    ...measured,
    "Waits in minutes on 100 PNodes, 1,000 jobs in 12 hours, load 1.6 (virtual time; the same workloads for both):",
    "",
    table(["", "EASY backfill", "DCNR"], waitRows()),
  ].join("\n");
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  return [line(head), `|${"---|".repeat(head.length)}`, ...rows.map(line)].join("\n");
}

/** Ten thousand jobs in line on a full fleet, CPU time. */
function decisionRows(): Row[] {
  return [1_000, 10_000].map((pnodes): Row => {
    const nodes = fleetOf(pnodes, 1).map((one) => ({ ...one, memoryFreeBytes: 0 }));
    const jobs = workloadOf({ count: 10_000, capacity: capacityOf(nodes), hours: 1, load: 1, seed: 7 });
    const running = nodes.slice(0, 2_000).map((one, index) => ({
      ...{ id: `r${index}`, owner: "o", queue: "default", class: "normal" as const, sinceMs: 0, yields: false },
      endMs: 60_000 * (1 + (index % 50)),
      holds: [{ pnode: one.id, memoryBytes: one.memoryBytes, gpus: 0 }],
    }));
    const view = {
      ...{ nowMs: 1, nodes, running, pending: jobs.map(({ job }) => ({ ...job, submittedMs: 0 })) },
      ...{ books: new Map(), use: new Map(), cohortOf: (queue: string) => queue, creditsOf: () => undefined },
    };
    const { waits } = decide(view, rulesDefault);
    const reserved = Array.from(waits.values()).filter(({ reason }) => reason.code === "room").length;
    const began = process.cpuUsage();
    const passes = 3;
    for (let pass = 0; pass < passes; pass++) decide(view, rulesDefault);
    const { user, system } = process.cpuUsage(began);
    const passMs = (user + system) / 1000 / passes;
    const perSecond = Math.round(10_000 / (passMs / 1000));
    return [
      `decisions with 10,000 jobs in line on ${pnodes} full PNodes (CPU time)`,
      `${perSecond}/s, ${passMs.toFixed(0)} ms a pass, ${reserved} reservations`,
      "",
    ];
  });
}

const easyRules = {
  reservations: 1,
  effort: 0,
  mustStartMs: Number.POSITIVE_INFINITY,
  quantumMs: Number.POSITIVE_INFINITY,
};

function waitRows(): string[][] {
  const rows: string[][] = [];
  for (const seed of [7, 8, 9]) {
    const nodes = fleetOf(100, 1);
    const jobs = workloadOf({ count: 1_000, capacity: capacityOf(nodes), hours: 12, load: 1.6, seed });
    const classOf = new Map(jobs.map(({ job }) => [job.id, job.class]));
    const easy = runQueueWorld({ nodes, jobs: jobs.map(asEqual), rules: easyRules });
    const ours = runQueueWorld({ nodes, jobs });
    const of = (waits: ReadonlyMap<string, number>, wanted: (id: string) => boolean) =>
      Array.from(waits).flatMap(([id, waitMs]) => (wanted(id) ? [waitMs / 60_000] : []));
    const mean = (waits: number[]) =>
      (waits.reduce((sum, wait) => sum + wait, 0) / Math.max(1, waits.length)).toFixed(1);
    const longest = (waits: number[]) => Math.max(...waits).toFixed(0);
    const any = () => true;
    const urgent = (id: string) => classOf.get(id) === ("urgent" satisfies PendingJob["class"]);
    rows.push([`seed ${seed}: mean wait`, mean(of(easy.waitsMs, any)), mean(of(ours.waitsMs, any))]);
    rows.push([`seed ${seed}: longest wait`, longest(of(easy.waitsMs, any)), longest(of(ours.waitsMs, any))]);
    rows.push([
      `seed ${seed}: mean wait of urgent jobs`,
      mean(of(easy.waitsMs, urgent)),
      mean(of(ours.waitsMs, urgent)),
    ]);
    rows.push([
      `seed ${seed}: use of the fleet, preemptions`,
      `${(easy.use * 100).toFixed(1)} %, 0`,
      `${(ours.use * 100).toFixed(1)} %, ${ours.preemptions}`,
    ]);
  }
  return rows;
}
