import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { fail } from "../../core/errors.ts";
import { realWorld } from "../../system/world.ts";
import { steadyWatch } from "./steady-watch.ts";

const world = realWorld({ logFormat: "none" });
const { signal } = new AbortController();

/** Each part is what comes before the connection breaks; the last one ends by itself. */
function breaking(parts: readonly (readonly number[])[], code: "unavailable" | "not_found" = "unavailable") {
  let times = 0;
  return async function* () {
    const part = parts[times++] ?? [];
    yield* part;
    if (times < parts.length) fail(code, "the connection broke");
  };
}

describe("a steady watch", () => {
  it("goes on where the connection broke", async () => {
    const seen = await Array.fromAsync(steadyWatch(breaking([[1, 2], [], [3]]), world, signal));
    assert.deepEqual(seen, [1, 2, 3]);
  });

  it("fails at once where nothing was seen, and by what another try would not change", async () => {
    await assert.rejects(Array.fromAsync(steadyWatch(breaking([[], [1]]), world, signal)), /the connection broke/);
    const gone = steadyWatch(breaking([[1], [2]], "not_found"), world, signal);
    await assert.rejects(Array.fromAsync(gone), /the connection broke/);
  });
});
