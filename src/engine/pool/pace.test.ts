import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { realClock } from "../../system/clock.ts";
import { ownCpuMs } from "../../system/machine/others-load.ts";
import { realTimers } from "../../system/timers.ts";
import { float, node, normal } from "../conformance.ts";
import { SharePace } from "./pace.ts";
import { openExecutor } from "./threads.ts";

describe("a share of the processor", () => {
  it("is what all work took together, whatever its pieces were, and a pause saves up little", async () => {
    let nowMs = 0;
    let usedMs = 3_000;
    const clock = { monotonicMs: () => nowMs, wallMs: () => nowMs };
    const after = (delayMs: number, callback: () => void) => {
      nowMs += delayMs;
      queueMicrotask(callback);
      return () => {};
    };
    const pace = new SharePace({ clock, timers: { after }, cpus: 0.25, usedMs: () => usedMs });
    const shareOf = async (pieces: readonly number[]) => {
      const beganMs = nowMs;
      for (const pieceMs of pieces) {
        for (let rest = pace.rest(); rest !== undefined; rest = pace.rest()) await rest;
        usedMs += pieceMs;
        nowMs += pieceMs;
      }
      return pieces.reduce((sum, piece) => sum + piece, 0) / (nowMs - beganMs);
    };
    const share = await shareOf(Array.from({ length: 200 }, (_, index) => 1 + (index % 30)));
    assert.ok(share > 0.22 && share < 0.28, `${share}`);
    nowMs += 3_600_000;
    const later = await shareOf(Array.from({ length: 100 }, () => 20));
    assert.ok(later < 0.28, `an hour of rest allows no hour of work: ${later}`);
  });

  it("holds for workers: of the time that passes they use no more, and compute the same", async () => {
    const product = {
      name: "product",
      inputs: [float("x", 256, 256), float("w", 256, 256)],
      outputs: [float("y", 256, 256)],
      nodes: [node("MatMul", ["x", "w"], "y")],
      constants: {},
    };
    const feeds = () => ({ x: normal("x", [256, 256]), w: normal("w", [256, 256]) });
    const free = await openExecutor({ kind: "portable", workers: 1 });
    free.register("product", product);
    const right = await free.run("product", feeds());
    await free.close();
    const cpus = 0.25;
    const pace = new SharePace({ cpus, usedMs: ownCpuMs, clock: realClock, timers: realTimers });
    const slow = await openExecutor({ kind: "portable", workers: 1, pace });
    slow.register("product", product);
    await slow.run("product", feeds());
    const [beganMs, usedBefore] = [performance.now(), ownCpuMs()];
    while (ownCpuMs() - usedBefore < 400) {
      const { y } = await slow.run("product", feeds());
      assert.deepEqual(y, right["y"]);
    }
    const share = (ownCpuMs() - usedBefore) / (performance.now() - beganMs);
    await slow.close();
    // A busy machine only makes it less.
    assert.ok(share < 2 * cpus, `${share} of a core`);
  });
});
