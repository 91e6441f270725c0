// A plot in the page: made anew when its lines, scale or theme change, given new data now and then otherwise.

import { useEffect, useRef, useState } from "react";
import type uPlot from "uplot";
import type { AlignedData } from "uplot";
import { useThemeVersion } from "../parts/theme.tsx";
import type { Mark } from "./marks.ts";
import { createPlot, type PlotLine, updatePlot } from "./plot.ts";

/** A curve drawn more often looks the same. */
const redrawMs = 400;

interface PlotBoxProps {
  /** Asked for when it is drawn. */
  readonly data: () => AlignedData;
  /** Grows when the data changed. */
  readonly version: unknown;
  readonly lines: readonly PlotLine[];
  readonly logarithmic: boolean;
  readonly marks?: readonly Mark[];
  readonly label: string;
  /** What is shown; another one is another plot. */
  readonly of: string;
}

const noMarks: readonly Mark[] = [];

export function PlotBox({ data, version, lines, logarithmic, marks = noMarks, label, of }: PlotBoxProps) {
  const theme = useThemeVersion();
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(undefined);
  const latest = useRef({ data, marks });
  latest.current = { data, marks };
  const drawTimer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const [values, setValues] = useState("");
  const [pointed, setPointed] = useState<{ mark: Mark; left: number }>();
  const shape = JSON.stringify([of, lines, logarithmic, theme]);

  // biome-ignore lint/correctness/useExhaustiveDependencies: lines, scale and colours are read when the plot is made; the shape says when
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const made = createPlot(element, latest.current.data(), lines, logarithmic, {
      marks: () => latest.current.marks,
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
  }, [shape]);

  // biome-ignore lint/correctness/useExhaustiveDependencies: the version says that the data changed inside
  useEffect(() => {
    drawTimer.current ??= setTimeout(() => {
      drawTimer.current = undefined;
      if (plot.current) updatePlot(plot.current, latest.current.data());
    }, redrawMs);
  }, [version, marks]);

  return (
    <>
      <div ref={box} className="plot-box" role="img" aria-label={label} />
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
    </>
  );
}
