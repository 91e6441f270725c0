// What a PNode says of itself is kept as far as it can be true.

import assert from "node:assert/strict";
import { test } from "node:test";
import { weightErrorOf } from "./attachment.ts";

test("an error of weights that nobody can have measured is not passed on", () => {
  for (const weightError of [0, 0.0812, 1]) assert.deepEqual(weightErrorOf({ weightError }), { weightError });
  for (const weightError of [-0.1, 1.01, Number.NaN, Number.POSITIVE_INFINITY, undefined])
    assert.deepEqual(weightErrorOf({ weightError }), {}, String(weightError));
});
