// Runs side by side: their curves in one plot, each in a colour of its own, and the settings in which they differ.

import uPlot, { type AlignedData } from "uplot";
import type { Session } from "../../src/protocol/gen/dcnr/v1/session_pb.ts";
import { PlotBox } from "../curves/plot-box.tsx";
import { columnsOf, drawnOf } from "../curves/view.ts";
import { useCurveChoice, ViewControls } from "../curves/view-controls.tsx";
import { loss } from "../format.ts";
import { useLive, useLiveParts } from "../live/hooks.ts";
import { Empty } from "../parts/empty.tsx";
import { Panel } from "../parts/panel.tsx";
import { differences, spokenName } from "./differences.ts";

interface ComparisonProps {
  readonly runs: readonly Session[];
  readonly onDrop: (id: string) => void;
}

export function Comparison({ runs, onDrop }: ComparisonProps) {
  const { store } = useLiveParts();
  const version = useLive((state) => state.seriesVersion);
  const choice = useCurveChoice();
  const { training, validation } = drawnOf[choice.subject];
  const shown = training ?? validation ?? "loss";
  const column = training ? 2 : 3;
  const tables = () =>
    runs.map(({ id }) => {
      const all = columnsOf(store.seriesOf(id), choice);
      return [all[0], all[column]] as unknown as AlignedData;
    });
  const isEmpty = runs.every(({ id }) => !store.seriesOf(id).columns[shown].some((value) => value !== null));
  const differing = differences(runs.map(({ settings }) => settings));
  return (
    <Panel id="comparison" title="Side by side" aside={choice.subject} actions={<ViewControls choice={choice} />}>
      <div className="plot plot-compared">
        {isEmpty ? (
          <Empty text={`None of these has a ${choice.subject} yet.`} />
        ) : (
          <PlotBox
            of={runs.map(({ id }) => id).join()}
            data={() => uPlot.join(tables())}
            version={version}
            lines={runs.map(({ id }, index) => ({
              label: id,
              colour: `--run-${index}`,
              width: 2,
              dots: training === undefined,
            }))}
            logarithmic={choice.logarithmic}
            label={`${choice.subject} of ${runs.map(({ id }) => id).join(", ")}`}
          />
        )}
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls can be reached without a pointer. */}
      <section className="table compared" aria-label="In what they differ" tabIndex={0}>
        <table>
          <thead>
            <tr>
              <th scope="col">setting</th>
              {runs.map(({ id }, index) => (
                <th scope="col" key={id}>
                  <span className="run-head">
                    <span className="run-key" data-run={index}>
                      {id}
                    </span>
                    <button type="button" className="quiet" onClick={() => onDrop(id)} aria-label={`Leave out ${id}`}>
                      ✕
                    </button>
                  </span>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {differing.map(({ name, values }) => (
              <tr key={name} data-setting={name}>
                <th scope="row">{spokenName(name)}</th>
                {runs.map(({ id }, index) => (
                  <td key={id}>{values[index] || "–"}</td>
                ))}
              </tr>
            ))}
            {differing.length === 0 && runs.length > 1 && (
              <tr>
                <td colSpan={runs.length + 1}>All settings are the same.</td>
              </tr>
            )}
            <tr>
              <th scope="row">loss now</th>
              {runs.map((run) => (
                <td key={run.id}>{loss(run.loss)}</td>
              ))}
            </tr>
            <tr>
              <th scope="row">step root</th>
              {runs.map((run) => (
                <td key={run.id}>
                  <code title={run.stepRoot}>
                    {run.stepRoot ? `${run.stepRoot.slice(0, 10)} at ${run.stepRootStep}` : "–"}
                  </code>
                </td>
              ))}
            </tr>
          </tbody>
        </table>
      </section>
    </Panel>
  );
}
