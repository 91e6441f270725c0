// How queues are shown.

import type { Queue, QuotaLimits } from "../../protocol/gen/dcnr/v1/job_pb.ts";
import type { Output } from "./output.ts";
import { bytes } from "./progress.ts";

export function showQueues(out: Output, queues: readonly Queue[]): void {
  out.table(
    [
      { title: "QUEUE" },
      { title: "COHORT", shrink: true },
      { title: "PENDING", align: "right" },
      { title: "RUNNING", align: "right" },
      { title: "CORES", align: "right" },
      { title: "GPUS", align: "right" },
      { title: "MEMORY", align: "right" },
      { title: "JOBS", align: "right" },
      { title: "BORROWED", shrink: true },
    ],
    queues.map((queue) => [
      queue.name,
      queue.cohort === queue.name ? "" : queue.cohort,
      `${queue.pending}`,
      `${queue.running}`,
      share(queue.used?.cores, queue.nominal?.cores, String),
      share(queue.used?.gpus, queue.nominal?.gpus, String),
      share(queue.used?.memoryBytes, queue.nominal?.memoryBytes, bytes),
      share(queue.used?.jobs, queue.nominal?.jobs, String),
      borrowed(queue.borrowed),
    ]),
  );
}

function share(used = 0, limit: number | undefined, say: (amount: number) => string): string {
  if (limit === undefined) return used > 0 ? say(used) : "";
  return `${say(used)} of ${say(limit)}`;
}

function borrowed(limits: QuotaLimits | undefined): string {
  const parts = [
    limits?.cores ? `${limits.cores} cores` : "",
    limits?.gpus ? `${limits.gpus} GPUs` : "",
    limits?.memoryBytes ? bytes(limits.memoryBytes) : "",
    limits?.jobs ? `${limits.jobs} jobs` : "",
  ];
  return parts.filter(Boolean).join(", ");
}
