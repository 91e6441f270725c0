import assert from "node:assert/strict";
import { it } from "node:test";
import { create } from "@bufbuild/protobuf";
import type { OrchestratorId, PNodeId } from "../../../core/ids.ts";
import { RegisterSchema } from "../../../protocol/gen/dcnr/v1/pnode_pb.ts";
import { registered } from "./registration.ts";

const pnode = "p" as PNodeId;
const whereabouts = {
  orchestrator: "o" as OrchestratorId,
  orchestratorIncarnation: "1",
  attachment: "1.1",
  lifeBefore: 0,
  nowWallMs: 9_000,
  peer: "192.0.2.1",
};

it("a machine whose record was ended and whose room was not begins after the lives that its room knows", () => {
  const register = create(RegisterSchema, { incarnation: "i1", capabilities: {}, limits: {} });
  assert.equal(registered(undefined, pnode, register, whereabouts, true).life, 1);
  const back = registered(undefined, pnode, register, { ...whereabouts, lifeBefore: 7 }, true);
  assert.equal(back.life, 8);
  assert.equal(registered(back, pnode, register, { ...whereabouts, lifeBefore: 7 }, true).life, 8, "the same life");
});

it("a PNode says how long ago its owner found nothing wrong with it, by its own clock", () => {
  const examinedOf = (examinedMsAgo?: number) => {
    const said = examinedMsAgo === undefined ? {} : { examinedMsAgo };
    const register = create(RegisterSchema, { incarnation: "i1", capabilities: {}, limits: {}, ...said });
    return registered(undefined, pnode, register, whereabouts, true).examinedWallMs;
  };
  assert.equal(examinedOf(4_000), 5_000);
  assert.equal(examinedOf(), undefined);
  assert.equal(examinedOf(-1), undefined, "not in the future");
});
