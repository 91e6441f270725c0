import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { usualValidation } from "./settings.ts";

describe("a validation, unless someone says how long it is", () => {
  const often = { samples: 8, trained: 1_000_000 };

  it("covers a small split once and takes no sample twice", () => {
    assert.equal(usualValidation(100, often), 12);
    assert.equal(usualValidation(8, often), 1);
  });

  it("takes about a thousand samples of a large split", () => {
    assert.equal(usualValidation(60_000, often) * often.samples, 1_024);
  });

  it("stays small beside the training that it follows", () => {
    assert.equal(usualValidation(60_000, { samples: 8, trained: 320 }) * 8, 160);
  });

  it("has at least one microbatch, whatever the split", () => {
    assert.equal(usualValidation(3, often), 1);
    assert.equal(usualValidation(60_000, { samples: 64, trained: 64 }), 1);
  });
});
