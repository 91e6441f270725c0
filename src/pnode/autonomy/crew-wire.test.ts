import assert from "node:assert/strict";
import { test } from "node:test";
import { create, toBinary } from "@bufbuild/protobuf";
import { CrewNewsSchema } from "../../protocol/gen/dcnr/v1/session_peers_pb.ts";
import { newsFromWire } from "./crew-wire.ts";

test("numbers that nobody can have counted to are taken as the most that can be told to others", () => {
  const most = 2n ** 64n - 1n;
  const holders = [{ pnode: "p", states: [{ vnode: "v", step: most, state: "0".repeat(64), trail: "" }] }];
  const { line, turn, holders: told } = newsFromWire(create(CrewNewsSchema, { line: most, turn: most, holders }));
  const again = create(CrewNewsSchema, {
    line: BigInt(line),
    turn: BigInt(turn),
    holders: [{ states: [{ step: BigInt(told[0]?.states[0]?.step ?? 0) }] }],
  });
  assert.ok(toBinary(CrewNewsSchema, again).byteLength > 0);
});

test("a list that tells a state twice is none: whoever sent it would count as two", () => {
  const held = { vnode: "v", step: 4n, state: "0".repeat(64), trail: "" };
  const listed = (states: object[]) => newsFromWire(create(CrewNewsSchema, { holders: [{ pnode: "p", states }] }));
  assert.equal(listed([held, { ...held, step: 5n }, { ...held, vnode: "w" }]).holders[0]?.states.length, 3);
  assert.throws(() => listed([held, { ...held, state: "1".repeat(64) }]), /twice/);
});
