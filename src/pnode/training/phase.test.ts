import assert from "node:assert/strict";
import { it } from "node:test";
import type { VNodeId } from "../../core/ids.ts";
import { phaseOf } from "./phase.ts";

it("what a VNode waits for is said in words: others, its round, room, or its checkpoint with what is wrong there", () => {
  const still = { ended: "no", idle: true, catchingUp: false, currentStep: 7 } as const;
  const usual = { waitedMs: 1_500, retentionFull: false, checkpointTrouble: "", ownerOf: () => "p2" };
  const detail = (process: Partial<Parameters<typeof phaseOf>[0]>, more: Partial<typeof usual> = {}) =>
    phaseOf({ ...still, missing: () => [], awaits: undefined, ...process }, { ...usual, ...more }).detail;
  const missing = () => [{ key: "b", whom: "b" as VNodeId, names: [] }];
  assert.equal(detail({ missing, awaits: "closing" }), "step 7, for b on PNode p2 since 1.5 s");
  assert.match(detail({ awaits: "plan" }, { retentionFull: true }), /^step 7, for a plan of its round/);
  assert.match(
    detail({ awaits: "closing" }, { checkpointTrouble: "no room" }),
    /round is closed since 1.5 s: no room$/,
  );
  assert.match(detail({}, { retentionFull: true }), /reached their bound/);
  assert.match(detail({}, { checkpointTrouble: "no room" }), /for its checkpoint since 1.5 s: no room$/);
});
