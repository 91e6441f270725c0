// A session's numbers by step. Points may come late, twice (a replay) or in pages; each lands in its row once.

import type { Metric } from "../../src/protocol/gen/dcnr/v1/common_pb.ts";

export const seriesNames = ["loss", "validation_loss", "validation_accuracy", "gradient_norm"] as const;
export type SeriesName = (typeof seriesNames)[number];

/** Far more than a screen has pixels; older rows are thinned out beyond it. */
export const rowsMax = 20_000;

export type Column = (number | null)[];

export class Series {
  readonly steps: number[] = [];
  readonly columns: Readonly<Record<SeriesName, Column>> = {
    loss: [],
    validation_loss: [],
    validation_accuracy: [],
    gradient_norm: [],
  };
  /** Grows with every change, so that readers see it cheaply. */
  version = 0;

  add(metric: Pick<Metric, "name" | "step" | "value">): void {
    const name = metric.name as SeriesName;
    const column = this.columns[name];
    if (!column || !Number.isFinite(metric.value)) return;
    const row = this.#row(Number(metric.step));
    // Each VNode has a norm of its own; the largest is what clipping looks at, whoever tells it and however often.
    column[row] = name === "gradient_norm" ? Math.max(column[row] ?? 0, metric.value) : metric.value;
    this.version += 1;
    if (this.steps.length > rowsMax) this.#thin();
  }

  get lastStep(): number {
    return this.steps.at(-1) ?? 0;
  }

  #row(step: number): number {
    let low = 0;
    let high = this.steps.length;
    if (step > this.lastStep) low = high;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.steps[middle] as number) < step) low = middle + 1;
      else high = middle;
    }
    if (this.steps[low] === step) return low;
    this.steps.splice(low, 0, step);
    for (const name of seriesNames) this.columns[name].splice(low, 0, null);
    return low;
  }

  /** Every second of the older rows goes; what was validated stays, and so does the newest quarter. */
  #thin(): void {
    const recent = Math.floor(this.steps.length * 0.75);
    const isKept = (_: unknown, row: number) =>
      row >= recent || row % 2 === 0 || this.columns.validation_loss[row] !== null;
    const kept = [this.steps, ...seriesNames.map((name) => this.columns[name])].map((column) => column.filter(isKept));
    const [steps, ...columns] = kept as [number[], ...Column[]];
    this.steps.splice(0, this.steps.length, ...steps);
    seriesNames.forEach((name, index) => {
      const column = this.columns[name];
      column.splice(0, column.length, ...(columns[index] as Column));
    });
  }
}

/** An exponential mean over about `window` points; gaps stay gaps. */
export function smooth(values: readonly (number | null)[], window: number): Column {
  const share = 2 / (window + 1);
  let mean: number | undefined;
  return values.map((value) => {
    if (value === null) return null;
    mean = mean === undefined ? value : mean + share * (value - mean);
    return mean;
  });
}
