// uPlot set up for training curves: lines over steps, marks across them, values under the pointer. Which lines is the caller's business.

import uPlot, { type AlignedData, type Options } from "uplot";
import { loss as lossText } from "../format.ts";
import { colourOfProperty } from "../parts/theme.tsx";
import type { Mark } from "./marks.ts";

export interface PlotLine {
  readonly label: string;
  /** A custom property of the palette. */
  readonly colour: string;
  readonly width: number;
  readonly dots?: boolean;
  /** Left out of what is said under the pointer. */
  readonly silent?: boolean;
}

export interface PlotHandlers {
  readonly marks: () => readonly Mark[];
  /** A mark under the pointer, with its place in the plot; undefined when there is none. */
  readonly onMark: (mark: Mark | undefined, left: number) => void;
  /** The values under the pointer, as text. */
  readonly onValues: (text: string) => void;
}

const logarithmicDistribution = 3;

export function createPlot(
  target: HTMLElement,
  data: AlignedData,
  lines: readonly PlotLine[],
  logarithmic: boolean,
  handlers: PlotHandlers,
): uPlot {
  const colour = {
    text: colourOfProperty("--text-soft"),
    line: colourOfProperty("--line"),
    bad: colourOfProperty("--bad"),
    good: colourOfProperty("--good"),
  };
  const font = `12px ${getComputedStyle(document.body).fontFamily}`;
  const axis = {
    stroke: colour.text,
    font,
    grid: { stroke: colour.line, width: 1 },
    ticks: { stroke: colour.line, width: 1, size: 4 },
  };
  const options: Options = {
    width: target.clientWidth,
    height: target.clientHeight,
    padding: [14, 22, 0, 0],
    legend: { show: false },
    cursor: { drag: { x: true, y: false }, points: { size: 6 } },
    scales: { x: { time: false }, y: logarithmic ? { distr: logarithmicDistribution } : {} },
    series: [{ label: "step" }, ...lines.map(lineOptions)],
    axes: [
      {
        ...axis,
        size: 30,
        values: (_, ticks) => ticks.map((tick) => (Number.isInteger(tick) ? tick.toLocaleString("en") : "")),
      },
      {
        ...axis,
        size: 52,
        values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : tickText(tick))),
      },
    ],
    hooks: {
      draw: [(plot) => drawMarks(plot, handlers.marks(), colour)],
      setCursor: [
        (plot) => handlers.onMark(...markUnder(plot, handlers.marks())),
        (plot) => handlers.onValues(valuesUnder(plot, lines)),
      ],
    },
  };
  return new uPlot(options, data, target);
}

function lineOptions({ label, colour, width, dots = false }: PlotLine): uPlot.Series {
  const stroke = colourOfProperty(colour);
  return {
    label,
    stroke,
    width,
    spanGaps: true,
    points: dots ? { show: true, size: 6, fill: stroke, stroke } : { show: false },
  };
}

function tickText(tick: number): string {
  return tick === 0 ? "0" : lossText(tick).replace(/\.?0+$/, "");
}

/** The steps that a plot was last given: its arrays grow in place, so it cannot tell by itself. */
const extents = new WeakMap<uPlot, { readonly first: number; readonly last: number }>();

/** New data; a view that somebody zoomed into stays. */
export function updatePlot(plot: uPlot, data: AlignedData): void {
  const { min, max } = plot.scales["x"] ?? {};
  const before = extents.get(plot);
  // A single point is shown with room around it: a view that is wider than the data is nobody's zoom.
  const isWhole =
    before === undefined || ((min ?? before.first) <= before.first && (max ?? before.last) >= before.last);
  extents.set(plot, { first: data[0][0] ?? 0, last: data[0].at(-1) ?? 0 });
  plot.setData(data, isWhole);
  if (!isWhole) plot.redraw();
}

function valuesUnder(plot: uPlot, lines: readonly PlotLine[]): string {
  const index = plot.cursor.idx;
  if (index === null || index === undefined) return "";
  const parts = [`step ${plot.data[0][index]?.toLocaleString("en")}`];
  lines.forEach(({ label, silent }, position) => {
    const value = plot.data[position + 1]?.[index];
    if (!silent && typeof value === "number") parts.push(`${label} ${lossText(value)}`);
  });
  return parts.join(" · ");
}

const markColour = { failure: "bad", recovered: "bad", note: "text" } as const;

function drawMarks(plot: uPlot, marks: readonly Mark[], colour: Readonly<Record<string, string>>): void {
  const { ctx, bbox } = plot;
  ctx.save();
  for (const mark of marks) {
    const x = Math.round(plot.valToPos(mark.step, "x", true));
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.strokeStyle = colour[markColour[mark.kind]] as string;
    ctx.fillStyle = ctx.strokeStyle;
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    if (mark.kind === "note") continue;
    dot(ctx, x, bbox.top, 4.5);
    if (mark.kind !== "recovered") continue;
    ctx.fillStyle = colour["good"] as string;
    dot(ctx, x, bbox.top + bbox.height, 4.5);
  }
  ctx.restore();
}

function dot(ctx: CanvasRenderingContext2D, x: number, y: number, radius: number): void {
  ctx.beginPath();
  ctx.arc(x, y, radius * devicePixelRatio, 0, 2 * Math.PI);
  ctx.fill();
}

function markUnder(plot: uPlot, marks: readonly Mark[]): [Mark | undefined, number] {
  const left = plot.cursor.left ?? -1;
  if (left < 0) return [undefined, 0];
  let best: Mark | undefined;
  let bestDistance = 8;
  for (const mark of marks) {
    const distance = Math.abs(plot.valToPos(mark.step, "x") - left);
    if (distance < bestDistance) {
      best = mark;
      bestDistance = distance;
    }
  }
  return [best, best ? plot.valToPos(best.step, "x") : 0];
}
