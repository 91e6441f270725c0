import assert from "node:assert/strict";
import { test } from "node:test";
import { create, toBinary } from "@bufbuild/protobuf";
import type { VNodeId } from "../../core/ids.ts";
import type { Charter, SignedCharter } from "../../crew/charter.ts";
import { openCrew, toldTenures } from "../../crew/crew.ts";
import { type Tenure, takenOver } from "../../crew/tenures.ts";
import { CrewNewsSchema } from "../../protocol/gen/dcnr/v1/session_peers_pb.ts";
import { newsFromWire, newsToWire } from "./crew-wire.ts";

test("numbers that nobody can have counted to are taken as the most that can be told to others", () => {
  const most = 2n ** 64n - 1n;
  const holders = [{ pnode: "p", states: [{ vnode: "v", step: most, state: "0".repeat(64), trail: "" }] }];
  const { line, turn, holders: told } = newsFromWire(create(CrewNewsSchema, { line: most, turn: most, holders }), 0);
  const again = create(CrewNewsSchema, {
    line: BigInt(line),
    turn: BigInt(turn),
    holders: [{ states: [{ step: BigInt(told[0]?.states[0]?.step ?? 0) }] }],
  });
  assert.ok(toBinary(CrewNewsSchema, again).byteLength > 0);
});

test("a list that tells a state twice is none: whoever sent it would count as two", () => {
  const held = { vnode: "v", step: 4n, state: "0".repeat(64), trail: "" };
  const listed = (states: object[]) => newsFromWire(create(CrewNewsSchema, { holders: [{ pnode: "p", states }] }), 0);
  assert.equal(listed([held, { ...held, step: 5n }, { ...held, vnode: "w" }]).holders[0]?.states.length, 3);
  assert.throws(() => listed([held, { ...held, state: "1".repeat(64) }]), /twice/);
});

test("ages count the way on which they came, and never go back", () => {
  const told = (ageMs: number) =>
    newsFromWire(create(CrewNewsSchema, { sightings: [{ pnode: "p", ageMs }], orchestratorAgeMs: ageMs }), 40);
  assert.deepEqual([told(7).sightings[0]?.ageMs, told(7).orchestratorAgeMs], [47, 47]);
  assert.deepEqual([told(-7).sightings[0]?.ageMs, told(-7).orchestratorAgeMs], [40, -1]);
});

test("who hosts what is told once, and while nobody would believe it not at all", () => {
  const vnodes = Array.from({ length: 138 }, (_, index) => {
    const vnode = `vnode-${index}` as VNodeId;
    const owners = [{ pnode: "ab".repeat(32), incarnation: "cd".repeat(16) }];
    return { vnode, tenure: { vnode, epoch: 3, count: 0, owners }, state: "" as const };
  });
  const charter = { session: "s-1", revision: 1n, crew: new Map(), vnodes, line: 0, turn: 0 } as unknown as Charter;
  const state = openCrew(charter, { pnode: "p1", incarnation: "1" }, 0);
  const told = (tenuresHash: string, isAlone: boolean, of = state) => {
    const other = { known: new Map(), revision: 1n, tenuresHash };
    const news = newsToWire(of, {} as SignedCharter, other, { nowMs: 0, isAlone });
    return create(CrewNewsSchema, news);
  };
  const bytes = (news: ReturnType<typeof told>) => toBinary(CrewNewsSchema, news).byteLength;
  const all = told("", true);
  assert.ok(all.tenures.length === 138 && bytes(all) > 15_000);
  const { tenuresHash } = all;
  assert.deepEqual([bytes(told(tenuresHash, true)) < 100, bytes(told("", false)) < 100], [true, true]);
  const taken = takenOver(vnodes[7]?.tenure as Tenure, { pnode: "p1", incarnation: "1" });
  assert.equal(told(tenuresHash, true, toldTenures(state, [taken])).tenures.length, 138);
});
