import assert from "node:assert/strict";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { SessionSchema } from "../../protocol/gen/dcnr/v1/session_pb.ts";
import { openOutput } from "../shown/output.ts";
import { compareRoots, keptRoot } from "./demo-root.ts";

function said(stepRoot: string, undisturbed: string | undefined): { same: boolean; text: string } {
  const lines: string[] = [];
  const out = { ...openOutput({}, true), line: (text = "") => void lines.push(text) };
  const session = create(SessionSchema, { id: "s", stepRoot, numericsClass: "native-1" });
  const same = compareRoots(out, session, undisturbed === undefined ? undefined : { root: undisturbed, from: "kept" });
  return { same, text: lines.join(" ") };
}

test("the demo says that roots are the same, that they differ, or that nobody knows", () => {
  assert.match(said("aa", "aa").text, /bit for bit those of an undisturbed run/);
  assert.equal(said("aa", "aa").same, true);
  assert.match(said("aa", "bb").text, /differs .* bb .*report/);
  assert.equal(said("aa", "bb").same, false);
  assert.match(said("aa", undefined).text, /No root .* native-1.*--compare/);
});

test("a root is kept for one session on one class alone", () => {
  assert.match(keptRoot({ id: "gpt-demo-f0b837efd943", numericsClass: "portable-2" })?.root ?? "", /^[0-9a-f]{64}$/);
  assert.equal(keptRoot({ id: "gpt-demo-f0b837efd943", numericsClass: "native-2" }), undefined);
  assert.equal(keptRoot({ id: "another", numericsClass: "portable-2" }), undefined);
});
