import assert from "node:assert/strict";
import { test } from "node:test";
import { usualNumerics } from "./usual-numerics.ts";

const fleetOf = (engines: Record<string, readonly string[]>) => ({
  classes: (engine: string) => engines[engine] ?? [],
});

test("native is usual where somebody has it or nobody is known, portable where machines have nothing else", () => {
  assert.equal(usualNumerics(fleetOf({})), "native");
  assert.equal(usualNumerics(fleetOf({ native: ["a"], portable: ["p"] })), "native");
  assert.equal(usualNumerics(fleetOf({ portable: ["p"] })), "portable");
});
