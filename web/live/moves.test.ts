import assert from "node:assert/strict";
import { test } from "node:test";
import { afterFrame, conditionOf, lostShownMs, type Move, movedShownMs } from "./moves.ts";
import type { HostView, VNodeView } from "./views.ts";

const on = (pnode: string, phase = "computing"): ReadonlyMap<string, VNodeView> =>
  new Map([
    [
      "s/v/0",
      {
        key: "s/v/0",
        session: "s",
        id: "v",
        replica: 0,
        pnode,
        epoch: 1,
        step: 1,
        phase,
        detail: "",
        stepMs: 1,
        durableStep: 0,
        reason: "",
      },
    ],
  ]);
const hosts = (a: string): ReadonlyMap<string, HostView> =>
  new Map([
    ["a", { name: "a", status: a }],
    ["b", { name: "b", status: "online" }],
  ]);
const none: ReadonlyMap<string, Move> = new Map();

/** What the card shows over time after a frame in which the VNode went from a to b. */
function shownAfterMove(statusOfA: string, atMs: readonly number[]): string[] {
  const last = new Map<string, string>();
  afterFrame(none, new Map(), on("a"), hosts("online"), last, 0);
  const moves = afterFrame(none, on("a"), on("b"), hosts(statusOfA), last, 1_000);
  return atMs.map((ms) => conditionOf(on("b").get("s/v/0"), hosts(statusOfA).get("b"), moves.get("s/v/0"), 1_000 + ms));
}

test("a loss that was repaired between two frames is still seen: red, then moved, then steady", () => {
  const times = [0, lostShownMs - 1, lostShownMs + 1, lostShownMs + movedShownMs - 1, lostShownMs + movedShownMs + 1];
  assert.deepEqual(shownAfterMove("lost", times), ["lost", "lost", "moved", "moved", "steady"]);
});

test("a move for balance is never red", () => {
  assert.deepEqual(shownAfterMove("online", [0, movedShownMs - 1, movedShownMs + 1]), ["moved", "moved", "steady"]);
});

test("a VNode on a host that is suspect or lost is lost; without a host it is unplaced", () => {
  const vnode = on("a").get("s/v/0");
  assert.equal(conditionOf(vnode, hosts("suspect").get("a"), undefined, 0), "lost");
  assert.equal(conditionOf(vnode, hosts("online").get("a"), undefined, 0), "steady");
  assert.equal(conditionOf(on("").get("s/v/0"), undefined, undefined, 0), "unplaced");
  assert.equal(conditionOf(undefined, undefined, undefined, 0), "unplaced");
});

test("the first host is no move, and a host that it had before it was unplaced is remembered", () => {
  const last = new Map<string, string>();
  assert.equal(afterFrame(none, new Map(), on("a"), hosts("online"), last, 0).size, 0);
  assert.equal(afterFrame(none, on("a"), on(""), hosts("lost"), last, 10).size, 0);
  const moves = afterFrame(none, on(""), on("b"), hosts("lost"), last, 20);
  assert.deepEqual(moves.get("s/v/0"), { from: "a", to: "b", atMs: 20, wasLost: true });
});
