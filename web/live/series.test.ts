import assert from "node:assert/strict";
import { test } from "node:test";
import { rowsMax, Series, smooth } from "./series.ts";

test("points in any order, repeated or late, make one sorted table", () => {
  const series = new Series();
  const points: [string, number, number][] = [
    ["loss", 3, 0.3],
    ["loss", 1, 0.1],
    ["validation_loss", 2, 0.25],
    ["loss", 2, 0.2],
    ["loss", 3, 0.3],
  ];
  for (const [name, step, value] of points) series.add({ name, step: BigInt(step), value });
  assert.deepEqual(series.steps, [1, 2, 3]);
  assert.deepEqual(series.columns.loss, [0.1, 0.2, 0.3]);
  assert.deepEqual(series.columns.validation_loss, [null, 0.25, null]);
});

test("unknown names and values that are no numbers are left out", () => {
  const series = new Series();
  series.add({ name: "secret", step: 1n, value: 1 });
  series.add({ name: "loss", step: 1n, value: Number.NaN });
  assert.deepEqual(series.steps, []);
});

test("smoothing keeps constants, gaps and the first value", () => {
  assert.deepEqual(smooth([2, 2, null, 2], 9), [2, 2, null, 2]);
  const smoothed = smooth([0, 10], 9);
  assert.equal(smoothed[0], 0);
  assert.ok((smoothed[1] as number) > 0 && (smoothed[1] as number) < 10);
});

test("a very long session stays drawable: bounded, sorted, with all validations and the newest steps", () => {
  const series = new Series();
  const last = 3 * rowsMax;
  for (let step = 1; step <= last; step += 1) {
    series.add({ name: "loss", step: BigInt(step), value: 1 / step });
    if (step % 1000 === 0) series.add({ name: "validation_loss", step: BigInt(step), value: 2 / step });
  }
  assert.ok(series.steps.length <= rowsMax);
  assert.equal(series.lastStep, last);
  for (const [row, step] of series.steps.entries()) {
    assert.ok(row === 0 || step > (series.steps[row - 1] as number));
    assert.equal(series.columns.loss[row], 1 / step);
  }
  assert.equal(series.columns.validation_loss.filter((value) => value !== null).length, last / 1000);
});
