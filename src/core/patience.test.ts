import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import { Patience, patienceMsMax } from "./patience.ts";

describe("patience", () => {
  it("waits for the punctual no longer than it must", () => {
    let patience = new Patience(3_000);
    for (let i = 0; i < 100; i++) patience = patience.heard(-200);
    assert.equal(patience.limitMs, 3_000);
  });

  it("waits longer for one that was late, and less again when it is on time for minutes", () => {
    let patience = new Patience(3_000).heard(4_000);
    const late = patience.limitMs;
    assert.ok(late > 3_000 + 4_000, "a second delay of the same length is no death");
    for (let i = 0; i < 300; i++) patience = patience.heard(0);
    assert.ok(patience.limitMs < 3_100);
  });

  it("ends somewhere, and starts where an earlier record ended", () => {
    const patience = new Patience(3_000, 12_000);
    assert.equal(patience.limitMs, 12_000);
    assert.equal(patience.heard(1_000_000).limitMs, patienceMsMax);
    assert.equal(new Patience(3_600_000).limitMs, 3_600_000);
  });
});
