import assert from "node:assert/strict";
import { it } from "node:test";
import { create } from "@bufbuild/protobuf";
import type { OrchestratorId, PNodeId } from "../../../core/ids.ts";
import { RegisterSchema } from "../../../protocol/gen/dcnr/v1/pnode_pb.ts";
import { networkOf, registered } from "./registration.ts";

const pnode = "p" as PNodeId;
const whereabouts = {
  orchestrator: "o" as OrchestratorId,
  orchestratorIncarnation: "1",
  attachment: "1.1",
  lifeBefore: 0,
  nowWallMs: 9_000,
  peer: "192.0.2.1",
  uncounted: false,
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

it("machines of one /24 or /48 are of one network, however its address is written", () => {
  const network = (peer: string) => networkOf(peer).network;
  assert.equal(network("192.0.2.7"), network("192.0.2.200"));
  assert.notEqual(network("192.0.2.7"), network("192.0.3.7"));
  assert.equal(network("2001:db8::1"), network("2001:db8:0:7:1:2:3:4"));
  assert.notEqual(network("2001:db8:1::1"), network("2001:db8:2::1"));
  for (const nothing of ["127.0.0.1", "::1", "p1"]) assert.equal(network(nothing), undefined);
});
