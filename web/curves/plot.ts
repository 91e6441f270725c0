// uPlot set up for training curves: loss as it is and smoothed, validation as points, marks as lines across.

import uPlot, { type AlignedData, type Options } from "uplot";
import { loss as lossText } from "../format.ts";
import { type Series, smooth } from "../live/series.ts";
import { colourOfProperty } from "../parts/theme.tsx";
import type { Mark } from "./marks.ts";

/** Smoothing over a twentieth of the curve, within these bounds: a short curve needs none. */
const smoothWindowMax = 50;
const smoothShare = 1 / 20;

export interface PlotHandlers {
  readonly marks: () => readonly Mark[];
  /** A mark under the pointer, with its place in the plot; undefined when there is none. */
  readonly onMark: (mark: Mark | undefined, left: number) => void;
  /** The values under the pointer, as text. */
  readonly onValues: (text: string) => void;
}

export function dataOf(series: Series): AlignedData {
  return [
    series.steps,
    series.columns.loss,
    smooth(series.columns.loss, Math.min(smoothWindowMax, 1 + series.steps.length * smoothShare)),
    series.columns.validation_loss,
  ] as unknown as AlignedData;
}

export function createPlot(target: HTMLElement, data: AlignedData, handlers: PlotHandlers): uPlot {
  const colour = {
    accent: colourOfProperty("--accent"),
    faint: colourOfProperty("--accent-faint"),
    second: colourOfProperty("--second"),
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
    scales: { x: { time: false } },
    series: [
      { label: "step" },
      { label: "loss", stroke: colour.faint, width: 1, spanGaps: true, points: { show: false } },
      { label: "loss, smoothed", stroke: colour.accent, width: 2, spanGaps: true, points: { show: false } },
      {
        label: "validation",
        stroke: colour.second,
        width: 2,
        spanGaps: true,
        points: { show: true, size: 6, fill: colour.second, stroke: colour.second },
      },
    ],
    axes: [
      {
        ...axis,
        size: 30,
        values: (_, ticks) => ticks.map((tick) => (Number.isInteger(tick) ? tick.toLocaleString("en") : "")),
      },
      {
        ...axis,
        size: 52,
        values: (_, ticks) => ticks.map((tick) => (tick === 0 ? "0" : lossText(tick).replace(/\.?0+$/, ""))),
      },
    ],
    hooks: {
      draw: [(plot) => drawMarks(plot, handlers.marks(), colour)],
      setCursor: [
        (plot) => handlers.onMark(...markUnder(plot, handlers.marks())),
        (plot) => handlers.onValues(valuesUnder(plot)),
      ],
    },
  };
  return new uPlot(options, data, target);
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

function valuesUnder(plot: uPlot): string {
  const index = plot.cursor.idx;
  if (index === null || index === undefined) return "";
  const [steps, losses, , validations] = plot.data;
  const parts = [`step ${steps[index]?.toLocaleString("en")}`];
  const [loss, validation] = [losses?.[index], validations?.[index]];
  if (typeof loss === "number") parts.push(`loss ${lossText(loss)}`);
  if (typeof validation === "number") parts.push(`validation ${lossText(validation)}`);
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
