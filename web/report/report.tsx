// How available machines were, what failures cost, and what one more machine like those here would give.

import { useState } from "react";
import type { AvailabilityRow, GetReportResponse } from "../../src/protocol/gen/dcnr/v1/report_pb.ts";
import { reports } from "../api.ts";
import { count, duration, plural } from "../format.ts";
import { useAsked } from "../live/asked.ts";
import { Empty } from "../parts/empty.tsx";
import { Panel } from "../parts/panel.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { useTitle } from "../place/use-address.ts";

const stretches = {
  "24 hours": 86_400,
  "7 days": 7 * 86_400,
  "30 days": 30 * 86_400,
  "400 days": 400 * 86_400,
} as const;
type Stretch = keyof typeof stretches;
const sorts = ["machine", "owner", "provider"] as const;
type By = (typeof sorts)[number];
const objectives = [0.9, 0.95, 0.99, 0.995, 0.999];
const askEveryMs = 30_000;

export function Report() {
  useTitle("Availability");
  const [stretch, setStretch] = useState<Stretch>("7 days");
  const [by, setBy] = useState<By>("machine");
  const [objective, setObjective] = useState(0.99);
  const { value, refusal } = useAsked(
    `report ${stretch} ${by} ${objective}`,
    () => reports.getReport({ lastSeconds: stretches[stretch], by, objective }),
    askEveryMs,
  );
  return (
    <div className="column">
      <Panel
        id="report"
        title="Availability"
        aside={value?.whole && `${precise(value.whole.uptime)} of the time that was lent`}
        actions={
          <>
            <select
              aria-label="Stretch"
              value={stretch}
              onChange={(event) => setStretch(event.target.value as Stretch)}
            >
              {Object.keys(stretches).map((one) => (
                <option key={one}>{one}</option>
              ))}
            </select>
            <select aria-label="By" value={by} onChange={(event) => setBy(event.target.value as By)}>
              {sorts.map((one) => (
                <option key={one} value={one}>
                  by {one}
                </option>
              ))}
            </select>
            <select
              aria-label="Objective"
              value={objective}
              onChange={(event) => setObjective(Number(event.target.value))}
            >
              {objectives.map((one) => (
                <option key={one} value={one}>
                  aim {100 * one} %
                </option>
              ))}
            </select>
          </>
        }
      >
        {value ? <Availability report={value} by={by} /> : <p className="quiet-text">{refusal || "…"}</p>}
      </Panel>
      <OneMore />
    </div>
  );
}

function Availability({ report, by }: { readonly report: GetReportResponse; readonly by: By }) {
  const { whole, rows, recoveries } = report;
  if (!whole || whole.onlineSeconds + whole.lostSeconds + whole.closedSeconds === 0)
    return <Empty text="Nothing was observed in this stretch yet: machines are looked at every half minute." />;
  return (
    <>
      {recoveries && recoveries.count > 0 && (
        <p className="report-sentence">
          {plural(recoveries.count, "time")} training lost a machine and was back after{" "}
          {duration(recoveries.meanSeconds)} on average, {duration(recoveries.longestSeconds)} at most;{" "}
          {count(Number(recoveries.repeatedSteps))} of {count(Number(recoveries.steps))} steps were computed again.
        </p>
      )}
      <Table
        label={`Availability by ${by}`}
        columns={columns(by)}
        rows={[...rows, { ...whole, name: "all together" }]}
        keyOf={(row) => row.name}
      />
    </>
  );
}

function columns(by: By): readonly Column<AvailabilityRow>[] {
  const time = (seconds: number) => (seconds > 0 ? duration(seconds) : "");
  return [
    { title: by, by: (row) => row.name, cell: (row) => row.name },
    {
      title: "uptime",
      align: "right",
      by: (row) => row.uptime,
      cell: (row) => (
        <span className="budget" data-spent={row.budgetLeftSeconds < 0 || undefined}>
          {precise(row.uptime)}
        </span>
      ),
    },
    { title: "online", align: "right", by: (row) => row.onlineSeconds, cell: (row) => time(row.onlineSeconds) },
    { title: "lost", align: "right", by: (row) => row.lostSeconds, cell: (row) => time(row.lostSeconds) },
    { title: "not lent", align: "right", by: (row) => row.closedSeconds, cell: (row) => time(row.closedSeconds) },
    { title: "failures", align: "right", by: (row) => row.failures, cell: (row) => count(row.failures) },
    {
      title: "between failures",
      align: "right",
      by: (row) => row.meanSecondsBetweenFailures,
      cell: (row) => time(row.meanSecondsBetweenFailures),
    },
    { title: "down for", align: "right", by: (row) => row.meanSecondsDown, cell: (row) => time(row.meanSecondsDown) },
    {
      title: "budget left",
      align: "right",
      by: (row) => row.budgetLeftSeconds,
      cell: (row) =>
        row.budgetLeftSeconds < 0
          ? `spent, ${duration(-row.budgetLeftSeconds)} over`
          : `${duration(row.budgetLeftSeconds)} of ${duration(row.budgetSeconds)}`,
    },
  ];
}

/** What waits, and what one more machine would change about it. */
function OneMore() {
  const { value } = useAsked(
    "one more",
    () => reports.planCapacity({ machines: 1, cores: 8, memoryBytes: 16n << 30n }),
    askEveryMs,
  );
  if (!value) return null;
  return (
    <Panel id="one-more" title="One more machine" aside="8 cores, 16 GiB">
      <p className="report-sentence">
        {value.sentence}
        {value.meanSecondsSooner > 0 &&
          ` Those whose start is known would start ${duration(value.meanSecondsSooner)} sooner on average.`}
      </p>
    </Panel>
  );
}

/** Uptime is told apart after the comma. */
function precise(share: number): string {
  return `${(100 * share).toFixed(2)} %`;
}
