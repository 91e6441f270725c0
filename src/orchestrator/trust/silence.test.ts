import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import type { PNodeId } from "../../core/ids.ts";
import { judgedSender, quietMsMost, type SenderFacts, storingMsMost } from "./silence.ts";

const facts: SenderFacts = {
  stated: { pnode: "p" as PNodeId, statement: { life: "one", edges: {} } },
  ...{ isHere: true, life: "one", isStoring: false },
};

describe("a sender that has not stored what an audit needs", () => {
  it("withholds it if it is here, in the life in which it computed it", () => {
    assert.equal(judgedSender(facts, quietMsMost), "withholds");
  });

  it("is not blamed if it is gone, has begun again, or has never said which life it lives", () => {
    assert.equal(judgedSender({ ...facts, isHere: false }, quietMsMost), "gone");
    assert.equal(judgedSender({ ...facts, life: "two" }, quietMsMost), "forgot");
    assert.equal(judgedSender({ ...facts, life: undefined }, quietMsMost), "forgot");
  });

  it("is waited for while it says that it is storing, but not for ever", () => {
    assert.equal(judgedSender({ ...facts, isStoring: true }, quietMsMost), "waits");
    assert.equal(judgedSender({ ...facts, isStoring: true }, storingMsMost), "withholds");
  });
});
