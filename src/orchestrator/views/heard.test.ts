import assert from "node:assert/strict";
import { test } from "node:test";
import type { PNodeId } from "../../core/ids.ts";
import type { Attachment } from "../fleet/attached/attachment.ts";
import { Heard } from "./heard.ts";

test("what a session's autonomy costs is measured: bytes that keepers fetched, for each state that was kept", () => {
  const attached = (...kept: [string, { bytes: number; states: number }][]) =>
    ({ kept: new Map(kept) }) as unknown as Attachment;
  const attachments = new Map([
    ["p1" as PNodeId, attached(["s", { bytes: 600, states: 2 }], ["other", { bytes: 9_000, states: 1 }])],
    ["p2" as PNodeId, attached(["s", { bytes: 300, states: 1 }])],
    ["p3" as PNodeId, attached()],
  ]);
  const heard = new Heard(undefined as never, attachments, undefined as never);
  assert.equal(heard.keptBytesPerState("s"), 300);
  assert.equal(heard.keptBytesPerState("nobody kept anything of it"), 0);
});
