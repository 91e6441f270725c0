// How curves are looked at: which numbers, on which scale, how smooth. And the columns that come of it. Pure.

import { type Column, type Series, type SeriesName, smooth } from "../live/series.ts";

export const subjects = ["loss", "accuracy", "gradient norm"] as const;
export type Subject = (typeof subjects)[number];
export const smoothings = ["none", "some", "much"] as const;
export type Smoothing = (typeof smoothings)[number];

export interface CurveView {
  readonly subject: Subject;
  readonly logarithmic: boolean;
  readonly smoothing: Smoothing;
}

export interface Drawn {
  readonly training: SeriesName | undefined;
  readonly validation: SeriesName | undefined;
}

export const drawnOf: Readonly<Record<Subject, Drawn>> = {
  loss: { training: "loss", validation: "validation_loss" },
  accuracy: { training: undefined, validation: "validation_accuracy" },
  "gradient norm": { training: "gradient_norm", validation: undefined },
};

/** Points over which the mean goes: a share of the curve within a bound, so that a short curve keeps its shape. */
const windows: Readonly<Record<Exclude<Smoothing, "none">, readonly [share: number, most: number]>> = {
  some: [1 / 20, 50],
  much: [1 / 5, 400],
};

export function windowOf(smoothing: Smoothing, points: number): number {
  if (smoothing === "none") return 1;
  const [share, most] = windows[smoothing];
  return Math.min(most, 1 + points * share);
}

/** A logarithm has no place for nothing and less. */
function onScale(column: Column, logarithmic: boolean): Column {
  return logarithmic ? column.map((value) => (value !== null && value > 0 ? value : null)) : column;
}

const empty: Column = [];

/** Steps, as it is, smoothed, validated: columns of one length. */
export function columnsOf(series: Series, view: CurveView): [number[], Column, Column, Column] {
  const { training, validation } = drawnOf[view.subject];
  const none = () => (series.steps.length === empty.length ? empty : series.steps.map(() => null));
  const plain = training ? onScale(series.columns[training], view.logarithmic) : none();
  const points = plain.length;
  const smoothed = smooth(plain, windowOf(view.smoothing, points));
  const validated = validation ? onScale(series.columns[validation], view.logarithmic) : none();
  return [series.steps, plain, smoothed, validated];
}
