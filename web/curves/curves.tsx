// Loss and validation over steps, failures and recoveries marked where they happened; rate and load beside them.

import { useEffect, useMemo } from "react";
import type { AlignedData } from "uplot";
import { capital, loss, percent, rate } from "../format.ts";
import { useLive, useLiveParts } from "../live/hooks.ts";
import { Empty } from "../parts/empty.tsx";
import { Panel } from "../parts/panel.tsx";
import { Sparkline } from "../parts/sparkline.tsx";
import { marksOf } from "./marks.ts";
import type { PlotLine } from "./plot.ts";
import { PlotBox } from "./plot-box.tsx";
import { useStepTimes } from "./step-times.ts";
import { columnsOf, drawnOf } from "./view.ts";
import { type CurveChoice, useCurveChoice, ViewControls } from "./view-controls.tsx";

export function Curves({ session }: { readonly session: string }) {
  const accuracy = useLive((state) => state.sessions.get(session)?.validationAccuracy ?? 0);
  const choice = useCurveChoice();
  return (
    <Panel
      id="curves"
      title={choice.subject === "gradient norm" ? "Largest gradient norm of a VNode" : "Loss and validation"}
      aside={<Legend choice={choice} accuracy={accuracy} />}
      actions={<ViewControls choice={choice} />}
    >
      <div className="curves">
        <Plot session={session} choice={choice} />
        <Rates session={session} />
      </div>
    </Panel>
  );
}

function Legend({ choice, accuracy }: { readonly choice: CurveChoice; readonly accuracy: number }) {
  const { training, validation } = drawnOf[choice.subject];
  return (
    <span className="legend">
      {training && <span className="key key-loss">training</span>}
      {validation && (
        <span className="key key-validation">validation{accuracy > 0 ? `, ${percent(accuracy)} right` : ""}</span>
      )}
      <span className="key key-mark">PNode lost, VNodes re-placed</span>
    </span>
  );
}

function linesOf({ subject, smoothing }: CurveChoice): readonly PlotLine[] {
  const isSmoothed = smoothing !== "none";
  return [
    { label: subject, colour: isSmoothed ? "--accent-faint" : "--accent", width: isSmoothed ? 1 : 2 },
    { label: "smoothed", colour: "--accent", width: isSmoothed ? 2 : 0, silent: true },
    { label: "validation", colour: "--second", width: 2, dots: true },
  ];
}

function Plot({ session, choice }: { readonly session: string; readonly choice: CurveChoice }) {
  const { store, follower } = useLiveParts();
  const version = useLive((state) => state.seriesVersion);
  const events = useLive((state) => state.events);
  const names = useLive((state) => state.names);
  const stepAt = useStepTimes(session);
  const marks = useMemo(
    () => marksOf(events, session, stepAt, (id) => names.get(id) ?? id),
    [events, session, stepAt, names],
  );
  const { subject } = choice;
  useEffect(() => {
    if (subject === "gradient norm") follower.loadNorms(session);
  }, [subject, session, follower]);
  const series = store.seriesOf(session);
  const { training, validation } = drawnOf[subject];
  const shown = training ?? validation ?? "loss";
  const isEmpty = !series.columns[shown].some((value) => value !== null);
  const last = series.columns[shown].findLast((value) => value !== null) ?? 0;
  return (
    <div className="plot">
      {isEmpty ? (
        <Empty text={shown === "loss" ? "The curve begins with the first step." : `No ${subject} has been measured.`} />
      ) : (
        <PlotBox
          of={session}
          data={() => columnsOf(series, choice) as AlignedData}
          version={`${version} ${subject}`}
          lines={linesOf(choice)}
          logarithmic={choice.logarithmic}
          marks={marks}
          label={`${capital(subject)} ${loss(last)} at step ${series.lastStep}`}
        />
      )}
      <ul className="visually-hidden" aria-label="Failures and recoveries">
        {marks.slice(-20).map((mark) => (
          <li key={`${mark.step} ${mark.title}`} data-mark={mark.kind} data-step={mark.step}>
            Step {mark.step}: {mark.title}
          </li>
        ))}
      </ul>
    </div>
  );
}

function Rates({ session }: { readonly session: string }) {
  const { store } = useLiveParts();
  const perSecond = useLive((state) => state.sessions.get(session)?.samplesPerSecond ?? 0);
  const loads = useLive((state) => state.loads);
  const load = useLive((state) => meanLoad(Array.from(state.pnodes.values())));
  const rates = store.rates.get(session) ?? [];
  return (
    <div className="rates">
      <Sparkline label="Samples per second" text={rate(perSecond)} values={rates} />
      <Sparkline
        label="Load of the PNodes"
        text={percent(load)}
        values={[...loads.map((one) => one.load), load]}
        max={1}
      />
    </div>
  );
}

function meanLoad(pnodes: readonly { readonly status: string; readonly load: number }[]): number {
  const online = pnodes.filter((pnode) => pnode.status === "online");
  const sum = online.reduce((total, pnode) => total + Math.min(1, pnode.load), 0);
  return online.length === 0 ? 0 : Math.round((100 * sum) / online.length) / 100;
}
