// Where the lines of a study run: each trial over its settings (parallel coordinates), and over its steps (curves). Places are
// shares of the picture, from the upper left corner. Pure.

import type { Searched, Study, Trial } from "../../src/protocol/gen/dcnr/v1/study_pb.ts";

export interface Place {
  readonly x: number;
  readonly y: number;
}

export interface Line {
  readonly trial: number;
  readonly points: readonly Place[];
  /** 0 for the best, 1 for the worst of those that came as far. */
  readonly rank: number;
}

export function lastValue({ values }: Pick<Trial, "values">): number | undefined {
  return values.at(-1)?.value;
}

/** Where a value stands on its axis, 0 to 1; undefined where the setting does not count. */
export function placeOn(
  { kind, low, high, logarithmic, values }: Searched,
  json: string | undefined,
): number | undefined {
  if (json === undefined) return undefined;
  if (kind === "choice") return values.length < 2 ? 0.5 : values.indexOf(json) / (values.length - 1);
  const value = Number(json);
  if (logarithmic) return Math.log(value / low) / Math.log(high / low);
  return (value - low) / (high - low);
}

/** What stands at the upper and at the lower end of an axis. */
export function endsOf({ kind, low, high, values }: Searched): readonly [string, string] {
  const text = (json: string | undefined) => (json ?? "").replace(/^"|"$/g, "");
  return kind === "choice"
    ? [text(values.at(-1)), values.length < 2 ? "" : text(values[0])]
    : [String(high), String(low)];
}

/** The same of the last axis, on which the best is above. */
export function outcomeEnds({
  trials,
  metric,
}: Pick<Study, "trials" | "metric">): readonly [number, number] | undefined {
  const values = ranked({ trials, metric }).map((trial) => lastValue(trial) as number);
  const [low, high] = extent(values);
  if (values.length === 0) return undefined;
  return metric === "validation_accuracy" ? [high, low] : [low, high];
}

/** From the best to the worst: those that trained longest first. */
export function ranked({ trials, metric }: Pick<Study, "trials" | "metric">): readonly Trial[] {
  const sign = metric === "validation_accuracy" ? -1 : 1;
  const steps = ({ values }: Trial) => Number(values.at(-1)?.step ?? 0n);
  return trials
    .filter((trial) => lastValue(trial) !== undefined)
    .sort(
      (a, b) =>
        steps(b) - steps(a) || sign * ((lastValue(a) as number) - (lastValue(b) as number)) || a.number - b.number,
    );
}

/** Over all settings, and what came out as the last axis, the best above. */
export function settingLines(study: Study): readonly Line[] {
  const order = ranked(study);
  const axes = study.searched.length;
  const range = extent(order.map((trial) => lastValue(trial) as number));
  return order.map((trial, index) => {
    const places = study.searched.map((one, axis) => {
      const share = placeOn(one, trial.settings[one.name]);
      return share === undefined ? [] : [{ x: axis / axes, y: 1 - share }];
    });
    const out = scaled(lastValue(trial) as number, range);
    const best = study.metric === "validation_accuracy" ? 1 - out : out;
    return { trial: trial.number, points: [...places.flat(), { x: 1, y: best }], rank: rankOf(index, order.length) };
  });
}

export interface Curves {
  readonly lines: readonly Line[];
  readonly low: number;
  readonly high: number;
}

/** What was measured on the way, all in one picture. */
export function curveLines(study: Study): Curves {
  const order = ranked(study);
  const drawn = order.map((trial) => (trial.curve.length > 0 ? trial.curve : trial.values));
  const [low, high] = extent(drawn.flat().map(({ value }) => value));
  const lines = order.map((trial, index) => ({
    trial: trial.number,
    rank: rankOf(index, order.length),
    points: (drawn[index] ?? []).map(({ step, value }) => ({
      x: Number(step) / Math.max(1, Number(study.steps)),
      y: 1 - scaled(value, [low, high]),
    })),
  }));
  return { lines, low, high };
}

function rankOf(index: number, count: number): number {
  return count < 2 ? 0 : index / (count - 1);
}

function extent(values: readonly number[]): readonly [number, number] {
  if (values.length === 0) return [0, 1];
  return [Math.min(...values), Math.max(...values)];
}

function scaled(value: number, [low, high]: readonly [number, number]): number {
  return high === low ? 0.5 : (value - low) / (high - low);
}
