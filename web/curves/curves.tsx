// Loss and validation over steps, failures and recoveries marked where they happened; rate and load beside them.

import { useEffect, useMemo, useRef, useState } from "react";
import type uPlot from "uplot";
import { loss, percent, rate } from "../format.ts";
import { useLive, useLiveParts } from "../live/hooks.ts";
import { Empty } from "../parts/empty.tsx";
import { Panel } from "../parts/panel.tsx";
import { Sparkline } from "../parts/sparkline.tsx";
import { useThemeVersion } from "../parts/theme.tsx";
import { type Mark, marksOf } from "./marks.ts";
import { createPlot, dataOf, updatePlot } from "./plot.ts";
import { useStepTimes } from "./step-times.ts";

/** A curve drawn more often looks the same. */
const redrawMs = 400;

export function Curves({ session }: { readonly session: string }) {
  const view = useLive((state) => state.sessions.get(session));
  return (
    <Panel id="curves" title="Loss and validation" aside={<Legend accuracy={view?.validationAccuracy ?? 0} />}>
      <div className="curves">
        <Plot session={session} />
        <Rates session={session} />
      </div>
    </Panel>
  );
}

function Legend({ accuracy }: { readonly accuracy: number }) {
  return (
    <span className="legend">
      <span className="key key-loss">training</span>
      <span className="key key-validation">validation{accuracy > 0 ? `, ${percent(accuracy)} right` : ""}</span>
      <span className="key key-mark">PNode lost, VNodes re-placed</span>
    </span>
  );
}

function Plot({ session }: { readonly session: string }) {
  const { store } = useLiveParts();
  const version = useLive((state) => state.seriesVersion);
  const events = useLive((state) => state.events);
  const names = useLive((state) => state.names);
  const stepAt = useStepTimes(session);
  const theme = useThemeVersion();
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(undefined);
  const marks = useMemo(
    () => marksOf(events, session, stepAt, (id) => names.get(id) ?? id),
    [events, session, stepAt, names],
  );
  const marksRef = useRef(marks);
  const drawTimer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const [values, setValues] = useState("");
  const [pointed, setPointed] = useState<{ mark: Mark; left: number }>();
  const series = store.seriesOf(session);
  const isEmpty = series.steps.length === 0;

  // biome-ignore lint/correctness/useExhaustiveDependencies: colours are read when the plot is made, so a theme makes a new one
  useEffect(() => {
    const element = box.current;
    if (!element || isEmpty) return;
    const made = createPlot(element, dataOf(series), {
      marks: () => marksRef.current,
      onValues: setValues,
      onMark: (mark, left) =>
        setPointed((before) => (before?.mark === mark ? before : mark ? { mark, left } : undefined)),
    });
    plot.current = made;
    const observer = new ResizeObserver(() =>
      made.setSize({ width: element.clientWidth, height: element.clientHeight }),
    );
    observer.observe(element);
    return () => {
      clearTimeout(drawTimer.current);
      drawTimer.current = undefined;
      observer.disconnect();
      made.destroy();
      plot.current = undefined;
    };
  }, [series, isEmpty, theme]);

  // biome-ignore lint/correctness/useExhaustiveDependencies: the version says that the series changed inside
  useEffect(() => {
    marksRef.current = marks;
    drawTimer.current ??= setTimeout(() => {
      drawTimer.current = undefined;
      if (plot.current) updatePlot(plot.current, dataOf(series));
    }, redrawMs);
  }, [series, version, marks]);

  const last = series.columns.loss.findLast((value) => value !== null) ?? 0;
  return (
    <div className="plot">
      {isEmpty && <Empty text="The curve begins with the first step." />}
      <div
        ref={box}
        className="plot-box"
        role="img"
        aria-label={isEmpty ? "No curve yet" : `Loss ${loss(last)} at step ${series.lastStep}`}
      />
      {values && <span className="readout">{values}</span>}
      {pointed && (
        <div className="tooltip" role="status" style={{ left: `${pointed.left + 52}px` }}>
          <strong>{pointed.mark.title}</strong>
          <span>at step {pointed.mark.step.toLocaleString("en")}</span>
          {pointed.mark.lines.slice(0, 6).map((line) => (
            <span key={line}>{line}</span>
          ))}
        </div>
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
