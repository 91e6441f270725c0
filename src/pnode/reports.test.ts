import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import { Reports } from "./reports.ts";

const metric = (step: number) => ({ name: "loss", step: BigInt(step), value: step });
const steps = (metrics: { step?: bigint }[]) => metrics.map(({ step }) => Number(step));

let nowMs = 0;
const clock = { wallMs: () => 0, monotonicMs: () => nowMs };

describe("metrics on their way to an orchestrator", () => {
  it("are repeated until the heartbeat that carried them is acknowledged", () => {
    const reports = new Reports(clock);
    reports.metric(metric(1));
    assert.deepEqual(steps(reports.metricsFor(1n)), [1]);
    reports.metric(metric(2));
    assert.deepEqual(steps(reports.metricsFor(2n)), [1, 2]);
    reports.acknowledged(1n);
    reports.metric(metric(3));
    assert.deepEqual(steps(reports.metricsFor(3n)), [2, 3]);
    reports.acknowledged(2n);
    assert.deepEqual(steps(reports.metricsFor(4n)), [3]);
    reports.acknowledged(4n);
    assert.deepEqual(steps(reports.metricsFor(5n)), []);
  });

  it("go again to the next orchestrator if the first one did not acknowledge them", () => {
    const reports = new Reports(clock);
    reports.metric(metric(1));
    reports.metricsFor(1n);
    reports.restart();
    reports.acknowledged(1n);
    assert.deepEqual(steps(reports.metricsFor(2n)), [1]);
  });

  it("go to the next orchestrator too if the first one may have died before it saved them", () => {
    const reports = new Reports(clock);
    for (const [step, passedMs] of [
      [1, 9_000],
      [2, 1_000],
      [3, 0],
    ] as const) {
      reports.metric(metric(step));
      reports.metricsFor(BigInt(step));
      reports.acknowledged(BigInt(step));
      nowMs += passedMs;
    }
    reports.metric(metric(4));
    reports.restart();
    assert.deepEqual(steps(reports.metricsFor(5n)), [2, 3, 4], "the first one had ten seconds to be saved");
    reports.restart();
    assert.deepEqual(steps(reports.metricsFor(6n)), [2, 3, 4], "until somebody acknowledges them");
  });
});
