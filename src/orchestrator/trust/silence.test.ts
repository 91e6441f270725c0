import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import type { PNodeId } from "../../core/ids.ts";
import { judgedSender, quietMsMost, type SenderFacts, storingMsMost, wasLetGo } from "./silence.ts";

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

  it("was told to let go of it where the session rests, or was started again since", () => {
    assert.equal(wasLetGo({ status: "suspended" }, {}), true);
    assert.equal(wasLetGo({ status: "running", restarts: 1 }, {}), true);
    assert.equal(wasLetGo({ status: "running", restarts: 2 }, { restarts: 1 }), true);
    assert.equal(wasLetGo({ status: "running", restarts: 1 }, { restarts: 1 }), false);
    assert.equal(wasLetGo({ status: "running" }, {}), false);
  });

  it("is waited for while it says that it is storing, but not for ever", () => {
    assert.equal(judgedSender({ ...facts, isStoring: true }, quietMsMost), "waits");
    assert.equal(judgedSender({ ...facts, isStoring: true }, storingMsMost), "withholds");
  });
});
