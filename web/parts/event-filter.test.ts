import assert from "node:assert/strict";
import { test } from "node:test";
import type { EventView } from "../live/views.ts";
import { filtered } from "./event-filter.ts";

const event = (wallMs: number, level: string, kind: string, message: string): EventView => ({
  key: String(wallMs),
  wallMs,
  level,
  kind,
  message,
  session: "",
  vnode: "",
  pnode: "",
  fromPNode: "",
  step: 0,
});
const events = [
  event(1, "info", "pnode.online", "maple is here"),
  event(2, "warn", "pnode.lost", "maple is lost"),
  event(3, "error", "session.failed", "no room"),
];
const seen = (level: "all" | "warn" | "error", kind = "", text = "") =>
  filtered(events, { level, kind, text }).map(({ wallMs }) => wallMs);

test("events are filtered by least level, kind and text, the newest first", () => {
  assert.deepEqual(seen("all"), [3, 2, 1]);
  assert.deepEqual(seen("warn"), [3, 2]);
  assert.deepEqual(seen("error"), [3]);
  assert.deepEqual(seen("all", "pnode"), [2, 1]);
  assert.deepEqual(seen("all", "", " MAPLE "), [2, 1]);
  assert.deepEqual(seen("error", "pnode"), []);
});
