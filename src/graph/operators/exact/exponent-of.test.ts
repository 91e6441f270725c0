import { deepStrictEqual } from "node:assert/strict";
import { test } from "node:test";
import { exponentOf } from "./exponent-of.ts";
import { powerOfTwo } from "./power-of-two.ts";

const apply = (operator: typeof exponentOf, values: readonly number[]) => {
  const [x, y] = [Float32Array.from(values), new Float32Array(values.length)];
  operator.plan([], [], {})([x], [y]);
  return [...y];
};

test("exponents are whole numbers, held between -100 and 100", () => {
  deepStrictEqual(
    apply(exponentOf, [1, -1.99, 2, 0.75, 2 ** -99, 2 ** -101, 0, -0, 1e-42, 2 ** 100, 3e38, Number.POSITIVE_INFINITY]),
    [0, 0, 1, -1, -99, -100, -100, -100, -100, 100, 100, 100],
  );
});

test("powers of two are exact from the smallest normal one to the largest", () => {
  deepStrictEqual(apply(powerOfTwo, [-126, -1, 0, 5, 127]), [2 ** -126, 0.5, 1, 32, 2 ** 127]);
});
