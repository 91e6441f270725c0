import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { checkAdvertised, checkLimits } from "./limits.ts";
import { parseBytes, parseRate } from "./quantities.ts";

const machine = { cpus: 4, memoryBytes: 16e9 };

describe("what somebody lends", () => {
  it("is refused where the machine does not have it, or it would be nothing", () => {
    checkLimits({ cpus: 0, memoryBytes: 0 }, machine);
    checkLimits({ cpus: 4, memoryBytes: 8e9 }, machine);
    assert.throws(() => checkLimits({ cpus: 99, memoryBytes: 0 }, machine), /--cpus 99 is more .* it has 4 cores/);
    assert.throws(() => checkLimits({ cpus: 1, memoryBytes: 32e9 }, machine), /--memory .* more than this machine has/);
    assert.throws(() => checkLimits({ cpus: 1, memoryBytes: 8 }, machine), /too little/);
  });

  it("has units: a bare number is no size", () => {
    assert.equal(parseBytes("8GB", "--memory"), 8e9);
    assert.equal(parseBytes("8GiB", "--memory"), 8 * 2 ** 30);
    assert.equal(parseBytes("512m", "--memory"), 512e6);
    assert.throws(() => parseBytes("8", "--memory"), /--memory takes a size such as 8GB/);
    assert.equal(parseRate("10MB/s", "--bandwidth"), 10e6);
    assert.equal(parseRate("10MB", "--bandwidth"), 10e6);
    assert.throws(() => parseRate("fast", "--bandwidth"), /--bandwidth takes a rate such as 10MB\/s/);
  });

  it("is reached at an address that others can call", () => {
    checkAdvertised("my-house.example:7801");
    checkAdvertised("[2001:db8::1]:7801");
    for (const address of ["nowhere", "0.0.0.0:7801", "my-house.example:0"])
      assert.throws(() => checkAdvertised(address), /--advertise takes an address that others can call/);
  });
});
