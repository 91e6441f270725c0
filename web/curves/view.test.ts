import assert from "node:assert/strict";
import { test } from "node:test";
import { Series } from "../live/series.ts";
import { columnsOf, smoothings, windowOf } from "./view.ts";

function seriesOf(...points: [string, number, number][]): Series {
  const series = new Series();
  for (const [name, step, value] of points) series.add({ name, step: BigInt(step), value });
  return series;
}

const view = { subject: "loss", logarithmic: false, smoothing: "none" } as const;

test("columns are as long as the steps, whatever is looked at", () => {
  const series = seriesOf(["loss", 1, 3], ["loss", 2, 0], ["validation_loss", 2, 4], ["gradient_norm", 1, 7]);
  for (const subject of ["loss", "accuracy", "gradient norm"] as const)
    for (const logarithmic of [false, true])
      for (const column of columnsOf(series, { ...view, subject, logarithmic }))
        assert.equal(column.length, 2, subject);
});

test("without smoothing the curve is as it was measured; a logarithm leaves out what has none", () => {
  const series = seriesOf(["loss", 1, 3], ["loss", 2, 0], ["loss", 3, 2]);
  assert.deepEqual(columnsOf(series, view)[2], [3, 0, 2]);
  assert.deepEqual(columnsOf(series, { ...view, logarithmic: true })[1], [3, null, 2]);
});

test("more smoothing means over more points, and never over fewer than one", () => {
  for (const points of [0, 1, 10, 1_000, 100_000]) {
    const [none, some, much] = smoothings.map((one) => windowOf(one, points));
    assert.ok((none as number) === 1 && (some as number) >= 1 && (much as number) >= (some as number));
  }
});

test("of the norms of all VNodes the largest counts, however often and in whichever order they are told", () => {
  const [a, b, c] = [0.5, 3, 2].map((value) => ["gradient_norm", 1, value] as [string, number, number]);
  for (const order of [
    [a, b, c],
    [c, b, a],
    [b, b, c, a],
  ] as [string, number, number][][])
    assert.deepEqual(columnsOf(seriesOf(...order), { ...view, subject: "gradient norm" })[1], [3]);
});
