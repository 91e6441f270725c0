import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import { Reports } from "./reports.ts";

const metric = (step: number) => ({ name: "loss", step: BigInt(step), value: step });
const steps = (metrics: { step?: bigint }[]) => metrics.map(({ step }) => Number(step));

describe("metrics on their way to an orchestrator", () => {
  it("are repeated until the heartbeat that carried them is acknowledged", () => {
    const reports = new Reports();
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
    const reports = new Reports();
    reports.metric(metric(1));
    reports.metricsFor(1n);
    reports.restart();
    reports.acknowledged(1n);
    assert.deepEqual(steps(reports.metricsFor(2n)), [1]);
  });
});
