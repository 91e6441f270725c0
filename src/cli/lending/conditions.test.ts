import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Lending } from "./conditions.ts";

const calm = { othersLoad: 0.05, power: "mains", hour: 12 } as const;
const busy = { ...calm, othersLoad: 0.6 } as const;
const between = { ...calm, othersLoad: 0.2 } as const;

describe("lending a machine", () => {
  it("does not care about its owner's work or its battery unless told to", () => {
    const lending = new Lending({ whenIdle: false, onMains: false });
    lending.notice({ ...calm, othersLoad: 1, power: "battery" }, 0);
    assert.equal(lending.refusal, "");
    lending.paused = true;
    assert.equal(lending.refusal, "paused by you");
  });

  it("begins after a minute in which nobody else works, ends at once, and does not flutter between", () => {
    const lending = new Lending({ whenIdle: true, onMains: false });
    assert.equal(lending.refusal, "you use it yourself");
    lending.notice(calm, 0);
    lending.notice(calm, 59_000);
    assert.notEqual(lending.refusal, "");
    lending.notice(calm, 60_000);
    assert.equal(lending.refusal, "");
    lending.notice(between, 65_000);
    assert.equal(lending.refusal, "", "a little is not enough to take it back");
    lending.notice(busy, 70_000);
    assert.equal(lending.refusal, "you use it yourself");
    lending.notice(calm, 71_000);
    lending.notice(between, 90_000);
    lending.notice(calm, 91_000);
    lending.notice(calm, 135_000);
    assert.notEqual(lending.refusal, "", "the calm minute begins anew after each disturbance");
  });

  it("stops on battery where it is to run on mains, and believes a system that cannot tell", () => {
    const lending = new Lending({ whenIdle: false, onMains: true });
    lending.notice({ ...calm, power: "battery" }, 0);
    assert.equal(lending.refusal, "it runs on battery");
    lending.notice({ ...calm, power: "unknown" }, 1);
    assert.equal(lending.refusal, "");
  });

  it("rests above its temperature until it is clearly cooler, and believes a system that cannot tell", () => {
    const lending = new Lending({ whenIdle: false, onMains: false, hottest: 80 });
    const at = (celsius: number | undefined) => {
      lending.notice({ ...calm, celsius }, 0);
      return lending.refusal;
    };
    assert.equal(at(80), "");
    assert.equal(at(81), "it is hotter than 80 °C");
    assert.notEqual(at(75), "", "it would go on and off");
    assert.notEqual(at(undefined), "");
    assert.equal(at(72), "");
    assert.equal(at(79), "");
  });
});
