// `dcnr report`: how available machines were, what failures cost, and what more machines would give.

import { fail } from "../../../core/errors.ts";
import { duration } from "../../../core/words/duration.ts";
import { plural } from "../../../core/words/plural.ts";
import type { AvailabilityRow } from "../../../protocol/gen/dcnr/v1/report_pb.ts";
import type { Command } from "../../command.ts";
import { parseSeconds } from "../../flags/quantities.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { parseOffer } from "../../shown/providers.ts";

const percent = (share: number) => `${(100 * share).toFixed(2)} %`;

export const command: Command = {
  summary: "Show how available machines were and what failures cost; with --add, what more machines would give.",
  details:
    "Uptime is the share of the time that owners gave; hours in which they did not lend count neither way. Kept by hour for 400 days. Observed by one orchestrator at a time, every half minute.",
  options: {
    ...connectionOptions,
    last: { type: "string", value: "TIME", summary: "the stretch until now, from 1h to 400d", default: "7d" },
    by: {
      type: "string",
      value: "WHAT",
      choices: ["machine", "owner", "provider", "whole"],
      summary: "machine, owner, provider or whole",
      default: "machine",
    },
    objective: {
      type: "number",
      fraction: true,
      least: 1,
      most: 99.9999,
      summary: "percent of the time that should be available",
      default: 99,
    },
    add: {
      type: "string",
      value: "KIND",
      summary: "think of more machines instead: NAME,cores=N,memory=SIZE[,gpus=N][,most=N]; most is how many",
    },
  },
  examples: [
    "dcnr report",
    "dcnr report --last 30d --by owner --objective 99.5",
    "dcnr report --add big,cores=16,memory=64GB,gpus=1,most=2",
  ],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out } = context;
      if (flags.has("add")) {
        const { most, cores, memoryBytes, gpus, gpuMemoryBytes, region } = parseOffer(flags.text("add"));
        const wish = { machines: most, cores, memoryBytes, gpus, gpuMemoryBytes, region };
        const given = Object.fromEntries(Object.entries(wish).filter(([, value]) => value !== undefined));
        const plan = await client.reports.plan(given);
        if (flags.is("json")) return void out.json(plan);
        out.line(plan.sentence);
        if (plan.meanSecondsSooner > 0)
          out.line(`those whose start is known would start ${duration(plan.meanSecondsSooner)} sooner on average`);
        for (const id of plan.starts.slice(0, 20)) out.line(`  ${id} would start`);
        for (const id of plan.possible.slice(0, 20)) out.line(`  ${id} could start some day`);
        return undefined;
      }
      const lastSeconds = parseSeconds(flags.text("last"), "--last");
      if (lastSeconds < 3_600)
        fail("invalid_argument", "--last is an hour or more: hours are the smallest that is kept");
      const report = await client.reports.availability({
        lastSeconds,
        by: flags.text("by"),
        objective: flags.number("objective") / 100,
      });
      if (flags.is("json")) return void out.json(report);
      const { whole, rows, recoveries } = report;
      if (!whole || whole.onlineSeconds + whole.lostSeconds + whole.closedSeconds === 0)
        return void out.line("nothing was observed in this stretch yet: machines are looked at every half minute");
      out.table(
        [
          { title: flags.text("by").toUpperCase(), shrink: true },
          ...["UPTIME", "ONLINE", "LOST", "NOT LENT", "FAILURES", "BETWEEN", "DOWN", "BUDGET LEFT"].map((title) => ({
            title,
            align: "right" as const,
          })),
        ],
        [...rows, whole].map(cells),
      );
      if (recoveries && recoveries.count > 0)
        out.line(
          `${plural(recoveries.count, "time")} training lost a machine and was back after ${duration(recoveries.meanSeconds)} on average, ${duration(recoveries.longestSeconds)} at most; ` +
            `${recoveries.repeatedSteps} of ${recoveries.steps} steps were computed again`,
        );
      return undefined;
    }),
};

function cells(row: AvailabilityRow): string[] {
  const time = (seconds: number) => (seconds > 0 ? duration(seconds) : "");
  const left = row.budgetLeftSeconds < 0 ? `-${duration(-row.budgetLeftSeconds)}` : duration(row.budgetLeftSeconds);
  return [
    row.name,
    percent(row.uptime),
    ...[time(row.onlineSeconds), time(row.lostSeconds), time(row.closedSeconds)],
    ...[String(row.failures), time(row.meanSecondsBetweenFailures), time(row.meanSecondsDown)],
    `${left} of ${duration(row.budgetSeconds)}`,
  ];
}
