import assert from "node:assert/strict";
import { it } from "node:test";
import { create, toBinary } from "@bufbuild/protobuf";
import { CharterSchema, KeptCharterSchema } from "../../src/protocol/gen/dcnr/v1/session_peers_pb.ts";
import { isLostToAll } from "./lost-crews.ts";

/** The disk of a machine that has such a charter of the session "s". */
function disk(revision: bigint, hosts: readonly string[]): Map<string, Uint8Array> {
  const crew = ["a", "b", "c"].map((pnode) => ({ pnode, hosts: hosts.includes(pnode) }));
  const charter = toBinary(CharterSchema, create(CharterSchema, { session: "s", revision, crew }));
  return new Map([["charter-s", toBinary(KeptCharterSchema, create(KeptCharterSchema, { charter: { charter } }))]]);
}

it("a session is lost only where all who may go on with it have lost their disks and can be told by nobody", () => {
  const isHidden = (pnode: string) => pnode === "c";
  const lost = (disks: Record<string, Map<string, Uint8Array>>) =>
    isLostToAll("s", new Map(Object.entries(disks)), isHidden);
  assert.ok(lost({ a: disk(2n, ["c"]), c: new Map() }));
  assert.ok(!lost({ a: disk(2n, ["c"]), c: disk(2n, ["c"]) }), "it has its disk");
  assert.ok(!lost({ a: disk(2n, ["b", "c"]), b: new Map(), c: new Map() }), "the other one can be called");
  assert.ok(!lost({ a: disk(2n, ["a", "c"]), c: new Map() }), "another one may host");
  assert.ok(!lost({ a: new Map(), c: new Map() }), "processes remember what no disk does");
  assert.ok(lost({ a: disk(2n, ["c"]), b: disk(1n, ["b"]), c: new Map() }), "the newest charter counts");
});
