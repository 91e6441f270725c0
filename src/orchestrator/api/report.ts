// ReportService: how available machines were, and what more of them would give.

import { fail } from "../../core/errors.ts";
import { wholeOf } from "../../core/whole.ts";
import { sleep } from "../../core/world.ts";
import { ReportService } from "../../protocol/gen/dcnr/v1/report_pb.ts";
import { type ServedService, service } from "../../protocol/network.ts";
import { whatIf } from "../../scheduler/what-if.ts";
import type { Context } from "../context.ts";
import type { Scheduling } from "../jobs/scheduling.ts";
import { dayOf } from "../records/availability.ts";
import type { Availability } from "../views/availability.ts";
import { type Grouping, type Row, recoveriesIn, rowsIn } from "../views/availability-report.ts";

export interface ReportApiNeeds {
  readonly context: Context;
  readonly availability: Availability;
  readonly jobs: { readonly scheduling: Scheduling };
}

const hourMs = 3_600_000;
const weekSeconds = 7 * 24 * 3_600;
const secondsMost = 400 * 24 * 3_600;
const objectiveUsual = 0.99;
const machinesMost = 1_000;
const rowsMost = 1_000;
/** At the front of the line: whoever asks, this takes no more than some 30 ms of everybody's time. */
const jobsMost = 1_000;
/** Reports that wait for the one that is being made: each reads days by the thousand. */
const reportsMost = 8;
const groupings: readonly Grouping[] = ["machine", "owner", "provider"];

export function reportService({ context, availability, jobs }: ReportApiNeeds): ServedService {
  let last: Promise<unknown> = Promise.resolve();
  let waiting = 0;
  /** One after the other, however many ask. */
  const inTurn = async <T>(make: () => Promise<T>): Promise<T> => {
    if (waiting >= reportsMost)
      fail("resource_exhausted", `${waiting} reports are being made already: ask again later`);
    waiting += 1;
    const made = last.then(make);
    last = made.catch(() => {});
    try {
      return await made;
    } finally {
      waiting -= 1;
    }
  };
  return service(ReportService, {
    getReport: async ({ lastSeconds, by, objective: wanted }) => {
      const seconds = lastSeconds || weekSeconds;
      const objective = wanted || objectiveUsual;
      if (!(seconds > 0 && seconds <= secondsMost))
        fail("invalid_argument", `the stretch is ${seconds} s: from an hour to 400 days`);
      if (!(objective > 0 && objective < 1))
        fail("invalid_argument", `the objective is ${objective}: more than 0, less than 1`);
      const toMs = context.world.clock.wallMs();
      // Hours are the smallest that is kept.
      const stretch = { fromMs: toMs - Math.max(seconds * 1000 - hourMs, 0), toMs };
      const grouping = groupings.find((one) => one === by);
      const { whole, rows, network } = await inTurn(async () => {
        const { machines, network: days } = await availability.days(dayOf(stretch.fromMs).day, dayOf(toMs).day);
        const asked = { stretch, objective, by: grouping };
        return { ...(await rowsIn(machines, asked, () => sleep(context.world.timers, 0))), network: days };
      });
      const { count, meanMs, longestMs, steps, repeated } = recoveriesIn(network, stretch);
      return {
        whole: rowView(whole),
        rows: rows.slice(0, rowsMost).map(rowView),
        recoveries: {
          ...{ count, meanSeconds: meanMs / 1000, longestSeconds: longestMs / 1000 },
          ...{ steps: BigInt(Math.round(steps)), repeatedSteps: BigInt(Math.round(repeated)) },
        },
        fromWallMs: BigInt(Math.floor(stretch.fromMs / hourMs) * hourMs),
        toWallMs: BigInt(Math.round(toMs)),
      };
    },
    planCapacity: async (request) => {
      const { machines, cores, gpus, region, provider } = request;
      const count = machines || 1;
      if (count > machinesMost)
        fail("invalid_argument", `at most ${machinesMost} machines are thought of at once, not ${count}`);
      if (gpus > 64) fail("invalid_argument", `a machine has at most 64 GPUs, not ${gpus}`);
      const kind = {
        ...{ cores: cores || 1, memoryBytes: wholeOf(request.memoryBytes), region, provider },
        gpus: Array.from({ length: gpus }, () => wholeOf(request.gpuMemoryBytes) || Number.MAX_SAFE_INTEGER),
      };
      const { view } = jobs.scheduling.outlook();
      const beyond = Math.max(0, view.pending.length - jobsMost);
      const near = { ...view, pending: view.pending.slice(0, jobsMost) };
      const found = whatIf(near, jobs.scheduling.rules, kind, count);
      const { starts, possible, meanMsSooner } = found;
      const [waiting, stillWaiting] = [found.waiting + beyond, found.stillWaiting + beyond];
      const what = count === 1 ? "one more such machine" : `${count} more such machines`;
      const sentence =
        waiting === 0
          ? `nothing waits: ${what} would stand idle`
          : `with ${what} ${starts.length} of ${waiting} waiting job(s) would start at once, ${possible.length} more than now could ever start`;
      return {
        starts: [...starts],
        possible: [...possible],
        waiting,
        stillWaiting,
        meanSecondsSooner: meanMsSooner / 1000,
        sentence,
      };
    },
  });
}

function rowView(row: Row) {
  return {
    ...{ name: row.name, machines: row.machines, failures: row.failures, uptime: row.uptime },
    ...{ onlineSeconds: row.onlineMs / 1000, closedSeconds: row.closedMs / 1000, lostSeconds: row.lostMs / 1000 },
    ...{ meanSecondsBetweenFailures: row.betweenFailuresMs / 1000, meanSecondsDown: row.downMs / 1000 },
    ...{ budgetSeconds: row.budgetMs / 1000, budgetLeftSeconds: row.budgetLeftMs / 1000 },
  };
}
