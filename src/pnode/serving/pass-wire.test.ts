import { strict as assert } from "node:assert";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { PassSchema } from "../../protocol/gen/dcnr/v1/serving_pb.ts";
import type { PassRow } from "./pass.ts";
import { fromProtoPass, toProtoPass } from "./pass-wire.ts";

const row: PassRow = { request: "2", position: 16, tokens: 3, logits: 2, shared: { request: "1", positions: 16 } };
const across = (rows: readonly PassRow[], dropped: readonly string[] = []) => {
  const pass = { id: 1, conductor: "p", epoch: 3, attempt: 4, rows, plain: false, dropped };
  return fromProtoPass(create(PassSchema, toProtoPass(pass)));
};

test("a pass crosses the wire as it is, and one that cannot be is refused", () => {
  assert.deepEqual(across([row], ["1"]).rows, [row]);
  const long = "x".repeat(65);
  const wrong: [readonly PassRow[], readonly string[], RegExp][] = [
    [[{ ...row, shared: { request: "2", positions: 16 } }], [], /of another one, not its own/],
    [[{ ...row, shared: { request: "1", positions: 8 } }], [], /shares 8 positions and begins at 16/],
    [[{ ...row, request: long }], [], /name has 65 letters/],
    [[{ ...row, shared: { request: long, positions: 16 } }], [], /name has 65 letters/],
    [[row], [long], /name has 65 letters/],
    [[{ ...row, tokens: 1 }], [], /1 tokens, 2 logits/],
    [[row, row], [], /two rows of one pass/],
  ];
  for (const [rows, dropped, reason] of wrong) assert.throws(() => across(rows, dropped), reason);
});
