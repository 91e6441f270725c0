import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { virtualWorld } from "../core/virtual-world.testing.ts";
import { sleep } from "../core/world.ts";
import { meet } from "./meeting.ts";

/** A member whose places are all gone but the one that answers. */
function lonely(gone: number, callMs: number) {
  const { world, until, pass } = virtualWorld();
  const ending = new AbortController();
  const state = { here: 0, asked: 0, answers: "" };
  const places = Array.from({ length: gone }, (_, index) => `gone-${index}`);
  void meet({
    world,
    places: () => [...places, "there"],
    here: () => state.here,
    ask: async (place) => {
      state.asked += 1;
      await sleep(world.timers, callMs);
      if (place !== state.answers) throw new Error("nobody answers");
      state.here = 1;
    },
    metMs: 80_000,
    signal: ending.signal,
  });
  return { world, until, pass, state, end: () => ending.abort() };
}

describe("a member that looks for others", () => {
  it("asks everywhere before it asks anywhere twice", async () => {
    const { until, state, end } = lonely(9, 10);
    state.answers = "there";
    await until(() => state.here > 0, 60);
    assert.ok(state.asked <= 10, `${state.asked} were asked`);
    end();
  });

  it("is not held up by places that let it wait", async () => {
    const { until, state, end } = lonely(8, 10_000);
    state.answers = "there";
    await until(() => state.here > 0, 31_000);
    end();
  });

  it("looks again soon when it has lost everybody, however lately it has asked", async () => {
    const { until, pass, state, end } = lonely(1, 10);
    state.answers = "there";
    await until(() => state.here > 0, 60);
    await pass(5_000);
    state.here = 0;
    await until(() => state.here > 0, 3_000);
    end();
  });

  it("remembers a thousand places and does not knock at all of them at once", async () => {
    const { pass, state, end } = lonely(999, 10);
    await pass(10_000);
    assert.ok(state.asked >= 24 && state.asked <= 84, `${state.asked} questions in ten seconds`);
    end();
  });

  it("asks ever more rarely while nobody is there", async () => {
    const { pass, state, end } = lonely(0, 10);
    await pass(600_000);
    assert.ok(state.asked > 15 && state.asked < 45, `${state.asked} questions in ten minutes`);
    end();
  });
});
