// All runs in one table, and those that are chosen side by side: their curves together, and in what their settings differ. What is
// compared stands in the address.

import { useEffect } from "react";
import type { Session } from "../../src/protocol/gen/dcnr/v1/session_pb.ts";
import { sessions as api } from "../api.ts";
import { count, date, duration, loss, percent, rate } from "../format.ts";
import { useAsked } from "../live/asked.ts";
import { useLiveParts } from "../live/hooks.ts";
import { Empty, orchestratorFlag } from "../parts/empty.tsx";
import { Panel } from "../parts/panel.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { formatAddress } from "../place/address.ts";
import { settleAt, useTitle } from "../place/use-address.ts";
import { Comparison } from "./comparison.tsx";

/** More curves than this cannot be told apart. */
export const comparedMax = 8;
const runsMax = 1_000;
const askEveryMs = 5_000;

export function Runs({ chosen }: { readonly chosen: string }) {
  useTitle("Runs");
  const { follower } = useLiveParts();
  const { value: runs, refusal } = useAsked("runs", listRuns, askEveryMs);
  const wanted = chosen === "" ? [] : chosen.split(",");
  const compared = wanted.flatMap((id) => runs?.find((run) => run.id === id) ?? []).slice(0, comparedMax);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the address names the runs
  useEffect(() => {
    for (const id of wanted.slice(0, comparedMax)) follower.loadCurves(id);
  }, [chosen, follower]);
  if (!runs)
    return (
      <Panel id="runs" title="Runs">
        <p className="quiet-text">{refusal || "…"}</p>
      </Panel>
    );
  const toggle = (id: string) =>
    settleAt({
      page: "runs",
      item: (wanted.includes(id) ? wanted.filter((one) => one !== id) : [...wanted, id]).join(","),
    });
  return (
    <div className="column">
      {compared.length > 0 && <Comparison runs={compared} onDrop={toggle} />}
      <Panel
        id="runs"
        title="Runs"
        aside={runs.length > 0 ? `${count(runs.length)} · choose up to ${comparedMax} to compare` : undefined}
      >
        {runs.length === 0 ? (
          <Empty text="Nothing was trained yet." commands={[`dcnr train mlp --dataset mnist${orchestratorFlag()}`]} />
        ) : (
          <Table
            label="Runs"
            columns={columns(wanted, toggle)}
            rows={runs}
            keyOf={(run) => run.id}
            isChosen={(run) => wanted.includes(run.id)}
          />
        )}
      </Panel>
    </div>
  );
}

async function listRuns(): Promise<readonly Session[]> {
  const found: Session[] = [];
  let pageToken = "";
  do {
    const page = await api.listSessions({ pageSize: 200, pageToken });
    found.push(...page.sessions);
    pageToken = page.nextPageToken;
  } while (pageToken && found.length < runsMax);
  return found.sort((a, b) => Number(b.createdWallMs - a.createdWallMs));
}

function columns(wanted: readonly string[], toggle: (id: string) => void): readonly Column<Session>[] {
  return [
    {
      title: "compare",
      cell: ({ id }) => (
        <input
          type="checkbox"
          aria-label={`Compare ${id}`}
          checked={wanted.includes(id)}
          disabled={!wanted.includes(id) && wanted.length >= comparedMax}
          onChange={() => toggle(id)}
        />
      ),
    },
    {
      title: "run",
      by: ({ id }) => id,
      cell: ({ id }) => <a href={formatAddress({ page: "sessions", item: id })}>{id}</a>,
    },
    { title: "dataset", by: ({ settings }) => settings?.dataset ?? "", cell: ({ settings }) => settings?.dataset },
    {
      title: "status",
      by: ({ status }) => status,
      cell: ({ status, reason }) => (
        <span className="status" data-status={status} title={reason}>
          {status}
        </span>
      ),
    },
    {
      title: "steps",
      align: "right",
      by: ({ step }) => Number(step),
      cell: ({ step, totalSteps }) => `${count(Number(step))} / ${count(Number(totalSteps))}`,
    },
    { title: "loss", align: "right", by: (run) => run.loss || Number.POSITIVE_INFINITY, cell: (run) => loss(run.loss) },
    {
      title: "validation",
      align: "right",
      by: (run) => run.validationLoss || Number.POSITIVE_INFINITY,
      cell: (run) => loss(run.validationLoss),
    },
    {
      title: "right",
      align: "right",
      by: (run) => run.validationAccuracy,
      cell: (run) => (run.validationAccuracy > 0 ? percent(run.validationAccuracy) : ""),
    },
    {
      title: "rate",
      align: "right",
      by: ({ settings }) => settings?.learningRate?.base ?? 0,
      cell: ({ settings }) => String(settings?.learningRate?.base ?? ""),
    },
    {
      title: "batch",
      align: "right",
      by: ({ settings }) => settings?.batch ?? 0,
      cell: ({ settings }) => count(settings?.batch ?? 0),
    },
    {
      title: "seed",
      align: "right",
      by: ({ settings }) => Number(settings?.seed ?? 0n),
      cell: ({ settings }) => String(settings?.seed ?? ""),
    },
    {
      title: "samples/s",
      align: "right",
      by: (run) => run.samplesPerSecond,
      cell: (run) => (run.status === "running" ? rate(run.samplesPerSecond) : ""),
    },
    { title: "begun", by: (run) => Number(run.createdWallMs), cell: (run) => date(Number(run.createdWallMs)) },
    {
      title: "took",
      align: "right",
      by: tookSeconds,
      cell: (run) => (run.endedWallMs > 0n ? duration(tookSeconds(run)) : ""),
    },
  ];
}

function tookSeconds({ createdWallMs, endedWallMs }: Session): number {
  return endedWallMs > 0n ? Number(endedWallMs - createdWallMs) / 1000 : 0;
}
