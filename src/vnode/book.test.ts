import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ToldRound } from "../network/rounds.ts";
import { type LaneClasses, RoundBook } from "./book.ts";

const schedule = {
  ...{ steps: 12, microbatches: 1, elastic: "on" as const },
  sync: { every: 3, after: 4, rules: 1 },
};

/** Lane 1 of two in a session whose first round, steps 4 to 7, was planned. */
function book(classes: LaneClasses | undefined, planned: string): RoundBook {
  const told = new RoundBook(schedule, { lane: 1, lanes: 2 }, classes);
  const lane = (number: number, own: string): ToldRound["lanes"][number] => ({
    ...{ lane: number, steps: 3, class: own },
    samples: [[8 + 3 * number, 3]],
  });
  told.tell([{ round: 0, lanes: [lane(0, "avx2"), lane(1, planned)] }]);
  return told;
}

const plannedSteps = (of: RoundBook) =>
  Array.from({ length: 13 }, (_, step) => step).filter((step) => of.isPlanned(step));

describe("a lane that has a class of its own", () => {
  it("learns together with others in the common one alone, and in rounds in that of its plan", () => {
    assert.deepEqual(plannedSteps(book({ own: "wasm", common: "wasm" }, "wasm")), [0, 1, 2, 3, 4, 5, 6, 7, 12]);
    assert.deepEqual(plannedSteps(book({ own: "wasm", common: "avx2" }, "wasm")), [4, 5, 6, 7, 12]);
  });

  it("waits where the plan names another class, but for the step in which all is put together", () => {
    assert.deepEqual(plannedSteps(book({ own: "wasm", common: "avx2" }, "avx2")), [7, 12]);
  });

  it("evaluates after the last round in the class of its last plan, or not at all", () => {
    const last = (classes: LaneClasses | undefined) => {
      const told = book(classes, "wasm");
      told.tell([{ round: 1, lanes: [{ lane: 1, steps: 3, class: "neon", samples: [[14, 3]] }], counted: [1] }]);
      return [8, 12].filter((step) => told.evaluates(step));
    };
    assert.deepEqual(last({ own: "neon", common: "wasm" }), [8, 12]);
    assert.deepEqual(last({ own: "wasm", common: "wasm" }), [8], "step 8 waits for its class by itself");
    assert.deepEqual(last(undefined), [8, 12]);
  });

  it("is what a session of one class knows nothing of", () => {
    assert.deepEqual(plannedSteps(book(undefined, "avx2")), [0, 1, 2, 3, 4, 5, 6, 7, 12]);
  });
});
