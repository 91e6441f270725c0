// How jobs are shown: as a table, as one with its life, and live until it ends.

import type { Client } from "../../client/client.ts";
import { duration } from "../../core/words/duration.ts";
import type { Job } from "../../protocol/gen/dcnr/v1/job_pb.ts";
import { type Output, plain } from "./output.ts";

export function showJobs(out: Output, jobs: readonly Job[]): void {
  out.table(
    [
      { title: "JOB" },
      { title: "NAME", shrink: true },
      { title: "KIND" },
      { title: "STATUS" },
      { title: "OWNER", shrink: true },
      { title: "QUEUE", shrink: true },
      { title: "PRIORITY" },
      { title: "LINE", align: "right" },
      { title: "RAN", align: "right" },
      { title: "WHY", shrink: true },
    ],
    jobs.map((job) => [
      job.id,
      job.spec?.name ?? "",
      job.spec?.kind ?? "",
      job.status === "running" && job.progress > 0 ? `running ${Math.floor(job.progress * 100)} %` : job.status,
      job.owner,
      job.spec?.queue ?? "",
      job.spec?.priority ?? "",
      job.position > 0 ? String(job.position) : "",
      job.ranSeconds > 0 ? duration(job.ranSeconds) : "",
      job.reason,
    ]),
  );
}

export function showJob(out: Output, job: Job): void {
  const { spec } = job;
  const lines: [string, string][] = [
    ["job", spec?.name ? `${job.id} (${spec.name})` : job.id],
    ["kind", `${spec?.kind}, ${spec?.priority} in queue ${spec?.queue}, of ${job.owner}`],
    ["status", job.reason && job.wait === "" ? `${job.status}: ${job.reason}` : job.status],
    ["needs", spec?.needs.join(", ") ?? ""],
    ["session", job.session],
    [
      "ran",
      job.ranSeconds > 0
        ? `${duration(job.ranSeconds)}${job.preemptions > 0 ? `; gave way ${job.preemptions} times` : ""}`
        : "",
    ],
    ["limit", spec?.timeLimitSeconds ? duration(spec.timeLimitSeconds) : ""],
    ["deadline", spec?.deadlineWallMs ? timeOf(spec.deadlineWallMs) : ""],
    ...Object.entries(job.result).map(([name, value]): [string, string] => [name, value]),
  ];
  for (const [name, text] of lines) if (text !== "") out.line(`${out.tone("dim", name.padEnd(11))} ${plain(text)}`);
  if (job.wait !== "") {
    out.line(out.tone("warn", `waits: ${plain(job.reason)}`));
    if (job.outlook !== "") out.line(`       ${plain(job.outlook)}`);
  }
  out.line();
  for (const { wallMs, kind, detail } of job.life)
    out.line(`${out.tone("dim", timeOf(wallMs))} ${plain(detail === "" ? kind : `${kind}: ${detail}`)}`);
}

export function timeOf(wallMs: bigint): string {
  return new Date(Number(wallMs)).toISOString().replace("T", " ").slice(0, 19);
}

/** Follows a job until it ends or the signal says stop; the last state seen. */
export async function followJob(
  client: Client,
  id: string,
  out: Output,
  signal: AbortSignal,
): Promise<Job | undefined> {
  let last: Job | undefined;
  for await (const { job } of client.jobs.watch(id, signal)) {
    if (!job) continue;
    const waits =
      job.wait === ""
        ? `${job.status}${job.progress > 0 ? ` ${Math.floor(job.progress * 100)} %` : ""}`
        : `waits: ${plain(job.reason)}; ${plain(job.outlook)}`;
    if (last?.status !== job.status) out.note(out.tone("dim", `  ${waits}`));
    out.status(waits);
    last = job;
  }
  out.status("");
  return last;
}
