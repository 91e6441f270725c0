// Curves made of letters: a sparkline that fits a cell, and a small plot with its axis. Braille dots where the terminal has
// them, plain letters elsewhere.

export interface CurvePoint {
  readonly step: number;
  readonly value: number;
}

const eighths = "▁▂▃▄▅▆▇█";
const letters = "_.-=+*#@";
/** Bits of a braille letter by row and column of its dots. */
const dots = [
  [0x01, 0x08],
  [0x02, 0x10],
  [0x04, 0x20],
  [0x40, 0x80],
] as const;

/** The newest values last; the lowest is the lowest letter. */
export function sparkline(values: readonly number[], width: number, unicode: boolean): string {
  const means = resampled(
    values.map((value, step) => ({ step, value })),
    Math.min(width, values.length),
  ).filter((mean) => mean !== undefined);
  if (means.length === 0) return "";
  const scale = unicode ? eighths : letters;
  const { low, span } = rangeOf(means);
  return means.map((value) => scale[Math.min(7, Math.floor(((value - low) / span) * 8))] ?? "").join("");
}

/** Lines from top to bottom, the axis of steps last; empty if there are too few points to see anything. */
export function plot(points: readonly CurvePoint[], width: number, height: number, unicode: boolean): string[] {
  const finite = points.filter(({ value }) => Number.isFinite(value));
  const inner = width - labelWidth - 2;
  if (finite.length < 3 || inner < 10 || height < 2) return [];
  const [acrossEach, downEach] = unicode ? [2, 4] : [1, 1];
  const means = resampled(finite, inner * acrossEach);
  const { low, high, span } = rangeOf(means.filter((mean) => mean !== undefined));
  const rows = height * downEach;
  const cells = Array.from({ length: height }, () => new Array<number>(inner).fill(0));
  means.forEach((mean, column) => {
    if (mean === undefined) return;
    const row = Math.min(rows - 1, Math.floor(((high - mean) / span) * rows));
    const line = cells[Math.floor(row / downEach)] as number[];
    const cell = Math.floor(column / acrossEach);
    line[cell] = (line[cell] ?? 0) | (unicode ? (dots[row % 4]?.[column % 2] ?? 0) : 1);
  });
  const drawn = cells.map((line, index) => {
    const label = index === 0 ? shown(high) : index === height - 1 ? shown(low) : "";
    const curve = line.map((bits) => letterOf(bits, unicode)).join("");
    return `${label.padStart(labelWidth)} ${unicode ? "│" : "|"}${curve.trimEnd()}`;
  });
  const first = String(finite[0]?.step ?? 0);
  const last = String(finite.at(-1)?.step ?? 0);
  return [...drawn, `${" ".repeat(labelWidth + 2)}${first}${last.padStart(Math.max(1, inner - first.length))}`];
}

const labelWidth = 7;

function letterOf(bits: number, unicode: boolean): string {
  if (bits === 0) return " ";
  return unicode ? String.fromCharCode(0x2800 + bits) : "*";
}

/** The mean of the values that fall into each of `count` equal stretches of steps; undefined where there are none. */
function resampled(points: readonly CurvePoint[], count: number): (number | undefined)[] {
  const first = points[0]?.step ?? 0;
  const length = Math.max(1, (points.at(-1)?.step ?? 0) - first);
  const sums = Array.from({ length: count }, () => ({ sum: 0, number: 0 }));
  for (const { step, value } of points) {
    const bucket = sums[Math.min(count - 1, Math.floor(((step - first) / length) * count))];
    if (!bucket || !Number.isFinite(value)) continue;
    bucket.sum += value;
    bucket.number += 1;
  }
  return sums.map(({ sum, number }) => (number > 0 ? sum / number : undefined));
}

function rangeOf(values: readonly number[]): { readonly low: number; readonly high: number; readonly span: number } {
  let low = Number.POSITIVE_INFINITY;
  let high = Number.NEGATIVE_INFINITY;
  for (const value of values) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  return { low, high, span: high - low || 1 };
}

function shown(value: number): string {
  const size = Math.abs(value);
  return size !== 0 && (size < 0.01 || size >= 10_000) ? value.toExponential(1) : value.toPrecision(3);
}
