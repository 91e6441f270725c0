import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { waitLines } from "./waits.ts";

describe("what waits", () => {
  it("is the orchestrator's sentence, with what one can do below it", () => {
    const waits = [
      { sentence: "birch says nothing; 58 VNodes wait", remedy: "" },
      { sentence: "3 VNodes wait for a machine: no PNode is online", remedy: "dcnr join here" },
    ];
    assert.deepEqual(waitLines(waits), [
      "waits: birch says nothing; 58 VNodes wait",
      "waits: 3 VNodes wait for a machine: no PNode is online",
      "       dcnr join here",
    ]);
  });

  it("cannot paint the terminal", () => {
    assert.deepEqual(waitLines([{ sentence: "\u001b[2Jbirch", remedy: "" }]), ["waits: ?[2Jbirch"]);
  });
});
