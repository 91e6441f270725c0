import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { DcnrError, type ErrorCode, type ErrorOptions } from "./errors.ts";
import { type RetryOptions, retry } from "./retry.ts";

/** How often a thing is tried that always fails, and for how long. */
async function tried(
  failure: (attempt: number) => unknown,
  options: Partial<RetryOptions> = {},
): Promise<{ attempts: number; waits: number[]; thrown: unknown }> {
  const waits: number[] = [];
  let [nowMs, attempts] = [0, 0];
  const world: RetryOptions["world"] = {
    clock: { wallMs: () => nowMs, monotonicMs: () => nowMs },
    timers: {
      after: (delayMs, callback) => {
        waits.push(delayMs);
        nowMs += delayMs;
        queueMicrotask(callback);
        return () => {};
      },
    },
    chance: { bytes: (count) => new Uint8Array(count), uniform: () => 1 },
  };
  const thrown = await retry({ world, minMs: 100, maxMs: 1_000, ...options }, async () => {
    throw failure(++attempts);
  }).catch((error: unknown) => error);
  return { attempts, waits, thrown };
}

const failing = (code: ErrorCode, options?: ErrorOptions) => () => new DcnrError(code, "no", options);

describe("trying again", () => {
  it("what is final is tried once, whatever the answer claims", async () => {
    for (const code of ["failed_precondition", "already_exists", "invalid_argument", "not_found"] as const)
      assert.equal((await tried(failing(code, { outlook: "passing" }))).attempts, 1);
    assert.equal((await tried(failing("unavailable", { outlook: "final" }))).attempts, 1);
  });

  it("what passes is tried with doubling waits until patience ends", async () => {
    const { waits, thrown } = await tried(failing("unavailable"), { patienceMs: 4_000 });
    assert.deepEqual(waits, [100, 200, 400, 800, 1_000, 1_000, 1_000]);
    assert.ok(thrown instanceof DcnrError);
  });

  it("what fails in one place is tried in every other at once, and given up when all agree", async () => {
    const three = { places: () => 3, rounds: 2 };
    assert.deepEqual(await tried(failing("internal"), three).then(({ attempts, waits }) => [attempts, waits]), [
      6,
      [100],
    ]);
    const bug = await tried(() => new TypeError("undefined is not a function"), three);
    assert.equal(bug.attempts, 6);
    assert.ok(bug.thrown instanceof TypeError);
  });

  it("a place that says that it passes begins the count of refusals anew", async () => {
    const mixed = (attempt: number) => new DcnrError(attempt === 2 ? "unavailable" : "internal", "no");
    assert.equal((await tried(mixed, { places: () => 2, rounds: 1 })).attempts, 4);
  });

  it("as often as it may", async () => {
    assert.equal((await tried(failing("unavailable"), { attemptsMax: 3 })).attempts, 3);
  });

  it("stops when it is told to", async () => {
    const stop = new AbortController();
    const failure = (attempt: number) => {
      if (attempt === 2) stop.abort();
      return new DcnrError("unavailable", "no");
    };
    assert.equal((await tried(failure, { signal: stop.signal })).attempts, 2);
  });
});
