import assert from "node:assert/strict";
import { test } from "node:test";
import { grantedOf } from "./processes.ts";

test("a child on a busy machine is given as much longer as others keep it waiting", () => {
  assert.equal(grantedOf(1_000, 0, 2), 1_000);
  assert.equal(grantedOf(1_000, 1.5, 2), 1_000);
  assert.equal(grantedOf(1_000, 40, 2), 50);
});
