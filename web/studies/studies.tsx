// A study: its trials as a table, side by side over their settings, and their curves together.

import { useState } from "react";
import type { Study, Trial } from "../../src/protocol/gen/dcnr/v1/study_pb.ts";
import { count, loss, percent, plural } from "../format.ts";
import { Empty, orchestratorFlag } from "../parts/empty.tsx";
import { Panel } from "../parts/panel.tsx";
import { goTo, useTitle } from "../place/use-address.ts";
import {
  type Curves,
  curveLines,
  endsOf,
  type Line,
  lastValue,
  outcomeEnds,
  ranked,
  settingLines,
} from "./geometry.ts";
import { useStudies, useStudy } from "./use-studies.ts";

export function Studies({ chosen }: { readonly chosen: string }) {
  const all = useStudies();
  const [lit, light] = useState<number | undefined>();
  const id = chosen || (all?.[0]?.id ?? "");
  const study = useStudy(id);
  useTitle(study ? `${study.name || study.id} · Studies` : "Studies");
  if (!study)
    return (
      <Panel id="studies" title="Studies">
        {all?.length === 0 ? (
          <Empty
            text="Nobody tunes yet. A study searches settings, and comes to the same winner whatever the machines do:"
            commands={[`dcnr tune examples/tuning/tpe.yaml${orchestratorFlag()}`]}
          />
        ) : (
          <p className="quiet-text">…</p>
        )}
      </Panel>
    );
  return (
    <Panel
      id="studies"
      title="Study"
      aside={`${study.status}, ${study.trialsEnded} of ${plural(Math.max(study.trialsWanted, study.trialsMade), "trial")}`}
      actions={
        all &&
        all.length > 1 && (
          <select
            aria-label="Study"
            value={id}
            onChange={(event) => goTo({ page: "studies", item: event.target.value })}
          >
            {all.map((one) => (
              <option key={one.id} value={one.id}>
                {one.name || one.id}
              </option>
            ))}
          </select>
        )
      }
    >
      <p className="study-how">
        {study.name || study.id}: {study.search} search, schedule {study.schedule}, {count(Number(study.steps))} steps.
        {study.best === undefined ? "" : ` Trial ${study.best} is the best${study.status === "done" ? "" : " so far"}.`}
      </p>
      <div className="study-plots">
        <SettingsPlot study={study} lit={lit} />
        <CurvesPlot study={study} lit={lit} />
      </div>
      <TrialTable study={study} lit={lit} onLight={light} />
    </Panel>
  );
}

interface PlotProps {
  readonly study: Study;
  readonly lit: number | undefined;
}

function SettingsPlot({ study, lit }: PlotProps) {
  const axes = [...study.searched.map(({ name }) => name), study.metric.replace("validation_", "")];
  const ends = [...study.searched.map(endsOf), (outcomeEnds(study) ?? []).map(loss)];
  return (
    <figure>
      <div className="study-axes">
        {axes.map((name, index) => (
          <span key={name}>{ends[index]?.[0]}</span>
        ))}
      </div>
      <svg
        viewBox="0 0 100 60"
        preserveAspectRatio="none"
        role="img"
        aria-label={`Trials over ${axes.join(", ")}: the table below has the numbers`}
      >
        {axes.map((name, index) => {
          const x = (100 * index) / (axes.length - 1);
          return <line key={name} className="axis" x1={x} x2={x} y1={0} y2={60} />;
        })}
        <Lines lines={settingLines(study)} lit={lit} best={study.best} />
      </svg>
      <figcaption className="study-axes">
        {axes.map((name, index) => (
          <span key={name}>
            {ends[index]?.[1]} <strong>{name}</strong>
          </span>
        ))}
      </figcaption>
    </figure>
  );
}

function CurvesPlot({ study, lit }: PlotProps) {
  const curves: Curves = curveLines(study);
  return (
    <figure>
      <div className="study-axes">
        <span>{loss(curves.high)}</span>
      </div>
      <svg
        viewBox="0 0 100 60"
        preserveAspectRatio="none"
        role="img"
        aria-label={`${study.metric} of all trials over ${count(Number(study.steps))} steps, from ${loss(curves.low)} to ${loss(curves.high)}`}
      >
        <line className="axis" x1={0} x2={0} y1={0} y2={60} />
        <line className="axis" x1={0} x2={100} y1={60} y2={60} />
        <Lines lines={curves.lines} lit={lit} best={study.best} />
      </svg>
      <figcaption className="study-axes">
        <span>{loss(curves.low)}</span>
        <span>
          <strong>{study.metric.replace("_", " ")}</strong> from step 0
        </span>
        <span>to {count(Number(study.steps))}</span>
      </figcaption>
    </figure>
  );
}

interface LinesProps {
  readonly lines: readonly Line[];
  readonly lit: number | undefined;
  readonly best: number | undefined;
}

/** The worst first, so that the best lie on top. A trial that was looked at once is a dot: a line from a place to itself. */
function Lines({ lines, lit, best }: LinesProps) {
  return lines
    .toReversed()
    .map(({ trial, points, rank }) => (
      <polyline
        key={trial}
        className="trial-line"
        data-trial={trial}
        data-dot={points.length === 1 || undefined}
        data-best={trial === best || undefined}
        data-lit={trial === lit || undefined}
        opacity={trial === best || trial === lit ? 1 : 0.75 - 0.55 * rank}
        points={(points.length === 1 ? [...points, ...points] : points)
          .map(({ x, y }) => `${(100 * x).toFixed(2)},${(60 * y).toFixed(2)}`)
          .join(" ")}
      />
    ));
}

interface TableProps extends PlotProps {
  readonly onLight: (trial: number | undefined) => void;
}

function TrialTable({ study, lit, onLight }: TableProps) {
  const order = ranked(study);
  const known = new Set(order.map(({ number }) => number));
  const rows = [...order, ...study.trials.filter(({ number }) => !known.has(number))];
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls can be reached without a pointer.
    <section className="study-table" aria-label="Trials" tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th scope="col">trial</th>
            {study.searched.map(({ name }) => (
              <th scope="col" key={name}>
                {name}
              </th>
            ))}
            <th scope="col">steps</th>
            <th scope="col">{study.metric.replace("validation_", "")}</th>
            <th scope="col">status</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((trial) => (
            <tr
              key={trial.number}
              data-trial={trial.number}
              data-best={trial.number === study.best || undefined}
              data-lit={trial.number === lit || undefined}
              onPointerEnter={() => onLight(trial.number)}
              onPointerLeave={() => onLight(undefined)}
              title={trial.reason || undefined}
            >
              <th scope="row">{trial.number}</th>
              {study.searched.map(({ name }) => (
                <td key={name}>{settingText(trial.settings[name])}</td>
              ))}
              <td>{trial.values.length > 0 ? count(Number(trial.values.at(-1)?.step)) : ""}</td>
              <td>{valueText(study, trial)}</td>
              <td>
                <span className="status" data-status={trial.status}>
                  {trial.status}
                </span>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function valueText({ metric }: Study, trial: Trial): string {
  const value = lastValue(trial);
  if (value === undefined) return "";
  return metric === "validation_accuracy" ? percent(value) : loss(value);
}

/** Numbers with as many digits as tell them apart. */
function settingText(json: string | undefined): string {
  if (json === undefined) return "";
  const value: unknown = JSON.parse(json);
  return typeof value === "number" && !Number.isInteger(value) ? String(Number(value.toPrecision(3))) : String(value);
}
