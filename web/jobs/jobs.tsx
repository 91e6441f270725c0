// Jobs: what waits its turn and why, what runs, what came of it; the queues they wait in; and the buttons that cancel and retry.

import { useState } from "react";
import type { Job, Queue } from "../../src/protocol/gen/dcnr/v1/job_pb.ts";
import { ActionButton } from "../actions/action-button.tsx";
import { jobs as api } from "../api.ts";
import { bytes, capital, count, date, duration, percent } from "../format.ts";
import { useAsked } from "../live/asked.ts";
import { Empty, orchestratorFlag } from "../parts/empty.tsx";
import { Panel } from "../parts/panel.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { formatAddress } from "../place/address.ts";
import { useTitle } from "../place/use-address.ts";

const statuses = ["all", "waiting", "running", "over"] as const;
type Shown = (typeof statuses)[number];
const jobsMax = 500;

export function Jobs() {
  useTitle("Jobs");
  const [shown, setShown] = useState<Shown>("all");
  const { value, refusal, again } = useAsked("jobs", async () => ({
    jobs: await listJobs(),
    queues: (await api.listQueues({})).queues,
  }));
  const rows = value?.jobs.filter((job) => shown === "all" || shown === groupOf(job)) ?? [];
  return (
    <div className="column">
      <Panel
        id="jobs"
        title="Jobs"
        aside={value && value.jobs.length > 0 ? `${count(rows.length)} of ${count(value.jobs.length)}` : undefined}
        actions={
          <select aria-label="Which jobs" value={shown} onChange={(event) => setShown(event.target.value as Shown)}>
            {statuses.map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        }
      >
        {!value && <p className="quiet-text">{refusal || "…"}</p>}
        {value && rows.length === 0 && (
          <Empty
            text={value.jobs.length === 0 ? "No jobs yet." : "No job is like that."}
            commands={
              value.jobs.length === 0
                ? [`dcnr job submit examples/jobs/train-and-evaluate.yaml${orchestratorFlag()}`]
                : []
            }
          />
        )}
        {rows.length > 0 && <Table label="Jobs" columns={jobColumns(again)} rows={rows} keyOf={(job) => job.id} />}
      </Panel>
      {value && value.queues.length > 0 && (
        <Panel id="queues" title="Queues">
          <Table label="Queues" columns={queueColumns} rows={value.queues} keyOf={(queue) => queue.name} />
        </Panel>
      )}
    </div>
  );
}

async function listJobs(): Promise<readonly Job[]> {
  const found: Job[] = [];
  let pageToken = "";
  do {
    const page = await api.listJobs({ pageSize: 200, pageToken });
    found.push(...page.jobs);
    pageToken = page.nextPageToken;
  } while (pageToken && found.length < jobsMax);
  const order = ["running", "waiting", "over"];
  return found.sort(
    (a, b) =>
      order.indexOf(groupOf(a)) - order.indexOf(groupOf(b)) ||
      (a.position || 1e9) - (b.position || 1e9) ||
      Number(b.submittedWallMs - a.submittedWallMs),
  );
}

export function groupOf({ status }: Pick<Job, "status">): Exclude<Shown, "all"> {
  if (status === "running") return "running";
  return status === "pending" || status === "suspended" ? "waiting" : "over";
}

function jobColumns(again: () => void): readonly Column<Job>[] {
  const act = (call: Promise<unknown>) => call.finally(again);
  return [
    {
      title: "job",
      by: (job) => job.spec?.name || job.id,
      cell: (job) => <span title={job.id}>{job.spec?.name || job.id}</span>,
    },
    { title: "kind", by: (job) => job.spec?.kind ?? "", cell: (job) => job.spec?.kind },
    {
      title: "status",
      by: (job) => job.status,
      cell: (job) => (
        <span className="status" data-status={job.status}>
          {job.status}
          {job.status === "running" && job.progress > 0 ? ` ${percent(job.progress)}` : ""}
        </span>
      ),
    },
    { title: "line", align: "right", by: (job) => job.position, cell: (job) => (job.position > 0 ? job.position : "") },
    { title: "owner", by: (job) => job.owner, cell: (job) => job.owner },
    { title: "queue", by: (job) => job.spec?.queue ?? "", cell: (job) => job.spec?.queue },
    {
      title: "session",
      cell: (job) => job.session && <a href={formatAddress({ page: "sessions", item: job.session })}>{job.session}</a>,
    },
    { title: "submitted", by: (job) => Number(job.submittedWallMs), cell: (job) => date(Number(job.submittedWallMs)) },
    {
      title: "ran",
      align: "right",
      by: (job) => job.ranSeconds,
      cell: (job) => (job.ranSeconds > 0 ? duration(job.ranSeconds) : ""),
    },
    {
      title: "why",
      cell: (job) => <span className="why">{[job.reason, job.outlook].filter(Boolean).map(capital).join(". ")}</span>,
    },
    {
      title: "actions",
      cell: (job) => (
        <span className="row-actions">
          {groupOf(job) !== "over" && (
            <ActionButton
              quiet
              name="Cancel"
              label={`Cancel job ${job.id}`}
              scope="train"
              confirm="It ends; what it has learned stays."
              act={() => act(api.cancelJob({ id: job.id }))}
            />
          )}
          {(job.status === "failed" || job.status === "cancelled" || job.wait === "held") && (
            <ActionButton
              quiet
              name="Retry"
              label={`Retry job ${job.id}`}
              scope="train"
              act={() => act(api.retryJob({ id: job.id }))}
            />
          )}
        </span>
      ),
    },
  ];
}

const queueColumns: readonly Column<Queue>[] = [
  { title: "queue", by: (queue) => queue.name, cell: (queue) => queue.name },
  { title: "cohort", cell: (queue) => queue.cohort },
  { title: "waiting", align: "right", by: (queue) => queue.pending, cell: (queue) => count(queue.pending) },
  { title: "running", align: "right", by: (queue) => queue.running, cell: (queue) => count(queue.running) },
  { title: "cores", align: "right", cell: (queue) => share(queue.used?.cores, queue.nominal?.cores) },
  { title: "GPUs", align: "right", cell: (queue) => share(queue.used?.gpus, queue.nominal?.gpus) },
  {
    title: "memory",
    align: "right",
    cell: (queue) => share(queue.used?.memoryBytes, queue.nominal?.memoryBytes, bytes),
  },
  { title: "weight", align: "right", cell: (queue) => queue.weight },
];

function share(used: number | undefined, nominal: number | undefined, text: (value: number) => string = count): string {
  return nominal === undefined ? text(used ?? 0) : `${text(used ?? 0)} of ${text(nominal)}`;
}
