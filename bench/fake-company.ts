// Jobs, queues, a report, balances and standings that only pretend, for pages of the dashboard that one machine would take days to fill.

import { JobService } from "../src/protocol/gen/dcnr/v1/job_pb.ts";
import { LedgerService } from "../src/protocol/gen/dcnr/v1/ledger_pb.ts";
import { ReportService } from "../src/protocol/gen/dcnr/v1/report_pb.ts";
import type { ServedService } from "../src/protocol/network.ts";
import { partly } from "./fake-orchestrator.ts";
import { fakeTrust } from "./fake-trust.ts";

const owners = ["ada", "grace", "lab"] as const;
const hour = 3_600;

function job(index: number) {
  const status = index < 2 ? "running" : index < 5 ? "pending" : index % 3 === 0 ? "failed" : "done";
  const waits = status === "pending";
  return {
    id: `job-${String(index).padStart(4, "0")}`,
    spec: { kind: index % 4 === 3 ? "evaluate" : "train", name: `run ${index}`, queue: "default", priority: "normal" },
    owner: owners[index % owners.length] as string,
    status,
    reason: waits ? "the others need all 8 cores" : status === "failed" ? "the loss became infinite at step 40" : "",
    wait: waits ? "room" : "",
    position: waits ? index - 1 : 0,
    outlook: waits ? `number ${index - 1} in line, probably in ${index * 4} min` : "",
    submittedWallMs: BigInt(Date.now() - index * 600_000),
    ranSeconds: waits ? 0 : index * 100,
    session: waits ? "" : "gpt-0123456789ab",
    progress: status === "running" ? 0.4 : 0,
  };
}

function availability(name: string, failures: number) {
  const lostSeconds = failures * 900;
  return {
    name,
    machines: 1,
    onlineSeconds: 150 * hour,
    closedSeconds: 8 * hour,
    lostSeconds,
    failures,
    uptime: 1 - lostSeconds / (150 * hour),
    meanSecondsBetweenFailures: failures > 0 ? (150 * hour) / failures : 0,
    meanSecondsDown: failures > 0 ? 900 : 0,
    budgetSeconds: 5_400,
    budgetLeftSeconds: 5_400 - lostSeconds,
  };
}

export function fakeCompany(): readonly ServedService[] {
  const jobs = Array.from({ length: 14 }, (_, index) => job(index));
  const balances = Array.from({ length: 6 }, (_, index) => ({
    pnode: `pnode-${index}`,
    name: `machine-${index + 1}`,
    owner: index === 5 ? "" : (owners[index % owners.length] as string),
    escrow: BigInt(index * 3_000_000),
    available: BigInt(index * 40_000_000),
    bond: 1_000_000n,
    outside: 0n,
    earned: BigInt(index * 43_000_000),
  }));
  const head = { number: 12n, root: "r", chains: 4n, wallMs: BigInt(Date.now()) };
  return [
    fakeTrust(),
    partly(JobService, {
      listJobs: async () => ({ jobs }),
      // Nothing trains; the session's name says that what was asked arrived.
      submitJobs: async ({ jobs: asked }: { jobs: readonly { spec: string }[] }) => ({
        jobs: asked.map(({ spec }) => ({ session: `gpt-of-seed-${(JSON.parse(spec) as { seed: string }).seed}` })),
      }),
      listQueues: async () => ({
        queues: [{ name: "default", pending: 3, running: 2, used: { cores: 8 }, nominal: { cores: 8 }, weight: 1 }],
      }),
      cancelJob: async ({ id }: { id: string }) => {
        const found = jobs.find((one) => one.id === id);
        if (found) Object.assign(found, { status: "cancelled", wait: "", position: 0, outlook: "", reason: "" });
        return { job: found };
      },
    }),
    partly(LedgerService, {
      listBalances: async () => ({ balances }),
      listSpending: async () => ({
        spending: [{ session: "gpt-0123456789ab", owner: "ada", spent: 81_000_000n, budget: 200_000_000n }],
        budgets: [{ owner: "ada", spent: 81_000_000n, budget: 500_000_000n }],
      }),
      getHead: async () => ({ head, ends: [] }),
    }),
    partly(ReportService, {
      getReport: async () => ({
        whole: availability("", 3),
        rows: [0, 1, 7, 0].map((failures, index) => availability(`machine-${index + 1}`, failures)),
        recoveries: { count: 8, meanSeconds: 2.4, longestSeconds: 9, steps: 12_000n, repeatedSteps: 96n },
      }),
      planCapacity: async () => ({
        sentence: "2 of 3 waiting jobs would start at once.",
        meanSecondsSooner: 1_200,
        waiting: 3,
      }),
    }),
  ];
}
