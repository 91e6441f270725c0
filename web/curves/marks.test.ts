import assert from "node:assert/strict";
import { test } from "node:test";
import type { EventView } from "../live/views.ts";
import { marksOf } from "./marks.ts";

const event = (wallMs: number, kind: string, about: Partial<EventView> = {}): EventView => ({
  key: `${wallMs} ${kind}`,
  wallMs,
  level: "info",
  kind,
  message: "",
  session: "",
  vnode: "",
  pnode: "",
  fromPNode: "",
  step: 0,
  ...about,
});
const nowhere = () => undefined;
const same = (id: string) => id;

test("a loss is marked with the VNodes it moved, at the step that they were at", () => {
  const events = [
    event(1_000, "vnode.placed", { session: "s", vnode: "a", pnode: "p1", message: "VNode a goes to p1: room" }),
    event(9_000, "pnode.lost", { pnode: "p1", message: "PNode p1 is lost" }),
    event(9_400, "vnode.placed", {
      session: "s",
      vnode: "a",
      pnode: "p2",
      step: 42,
      fromPNode: "p1",
    }),
    event(9_500, "vnode.placed", {
      session: "s",
      vnode: "b",
      pnode: "p3",
      step: 42,
      fromPNode: "p1",
    }),
  ];
  const [mark, ...rest] = marksOf(events, "s", nowhere, same);
  assert.deepEqual(rest, []);
  assert.equal(mark?.step, 42);
  assert.equal(mark.title, "p1 lost, 2 VNodes re-placed in 0.5 s");
  assert.deepEqual(mark.lines, ["a → p2", "b → p3"]);
});

test("losses that moved nothing of this session are left out", () => {
  const events = [
    event(9_000, "pnode.lost", { pnode: "p1" }),
    event(9_400, "vnode.placed", { session: "other", vnode: "a", pnode: "p2", step: 42, fromPNode: "p1" }),
    event(9_500, "vnode.placed", {
      session: "s",
      vnode: "a",
      pnode: "p2",
      step: 7,
      fromPNode: "p9",
    }),
  ];
  assert.deepEqual(marksOf(events, "s", nowhere, same), []);
});

test("events without a step are put where the page saw the session then", () => {
  const events = [event(5_000, "session.suspended", { session: "s", message: "session s is suspended" })];
  assert.equal(marksOf(events, "s", () => 17, same)[0]?.step, 17);
  assert.deepEqual(marksOf(events, "s", nowhere, same), []);
});

test("a re-placement that is told before the loss belongs to it all the same", () => {
  const events = [
    event(8_900, "vnode.placed", { session: "s", vnode: "a", pnode: "p2", step: 42, fromPNode: "p1" }),
    event(9_000, "pnode.lost", { pnode: "p1" }),
  ];
  assert.equal(marksOf(events, "s", nowhere, same)[0]?.title, "p1 lost, 1 VNode re-placed in 0.0 s");
});

test("PNodes are called by their names", () => {
  const events = [
    event(9_000, "pnode.lost", { pnode: "p1" }),
    event(9_100, "vnode.placed", { session: "s", vnode: "a", pnode: "p2", step: 42, fromPNode: "p1" }),
  ];
  const names: Record<string, string> = { p1: "maple", p2: "birch" };
  assert.deepEqual(marksOf(events, "s", nowhere, (id) => names[id] ?? id)[0]?.lines, ["a → birch"]);
});
