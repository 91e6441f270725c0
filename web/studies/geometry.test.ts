import assert from "node:assert/strict";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { StudySchema } from "../../src/protocol/gen/dcnr/v1/study_pb.ts";
import { curveLines, endsOf, outcomeEnds, placeOn, ranked, settingLines } from "./geometry.ts";

const values = (...pairs: [number, number][]) => pairs.map(([step, value]) => ({ step: BigInt(step), value }));
const study = create(StudySchema, {
  metric: "validation_loss",
  steps: 20n,
  searched: [
    { name: "rate", kind: "number", low: 0.01, high: 1, logarithmic: true },
    { name: "kind", kind: "choice", values: ['"a"', '"b"', '"c"'] },
  ],
  trials: [
    { number: 0, settings: { rate: "0.01", kind: '"a"' }, values: values([10, 0.1]), curve: values([10, 0.1]) },
    { number: 1, settings: { rate: "0.1" }, values: values([10, 0.5], [20, 0.4]), curve: values([10, 0.5], [20, 0.4]) },
    { number: 2, settings: { rate: "1", kind: '"c"' }, values: values([20, 0.3]) },
    { number: 3, settings: { rate: "1" } },
  ],
});

test("trials that trained longer come before those that were stopped, then the better; those without a result are left out", () => {
  assert.deepEqual(
    ranked(study).map(({ number }) => number),
    [2, 1, 0],
  );
  assert.deepEqual(
    ranked({ ...study, metric: "validation_accuracy" }).map(({ number }) => number),
    [1, 2, 0],
  );
});

test("values stand on their axes by their scale, and what does not count is left out", () => {
  const [rate, kind] = study.searched;
  assert.ok(rate && kind);
  assert.ok(Math.abs((placeOn(rate, "0.1") as number) - 0.5) < 1e-12);
  assert.equal(placeOn(kind, '"c"'), 1);
  assert.equal(placeOn(kind, undefined), undefined);
  const [best, second] = settingLines(study);
  assert.deepEqual(best?.points[0], { x: 0, y: 0 });
  assert.equal(best?.rank, 0);
  assert.equal(second?.points.length, 2, "one setting and the result");
});

test("curves lie in one picture, the least below", () => {
  const { lines, low, high } = curveLines(study);
  assert.deepEqual([low, high], [0.1, 0.5]);
  const curve = lines.find(({ trial }) => trial === 1);
  assert.deepEqual(
    curve?.points.map(({ x }) => x),
    [0.5, 1],
  );
  assert.equal(curve?.points[0]?.y, 0);
});

test("axes say what stands at their ends, the best outcome above", () => {
  assert.deepEqual(study.searched.map(endsOf), [
    ["1", "0.01"],
    ["c", "a"],
  ]);
  assert.deepEqual(outcomeEnds(study), [0.1, 0.4]);
  assert.deepEqual(outcomeEnds({ ...study, metric: "validation_accuracy" }), [0.4, 0.1]);
  assert.equal(outcomeEnds({ ...study, trials: [] }), undefined);
});
