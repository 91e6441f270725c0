import assert from "node:assert/strict";
import { test } from "node:test";
import { condensed } from "./moves.ts";

const event = (kind: string, message: string, vnode = "") => ({
  ...{ level: "info", kind, message, vnode, pnode: "", fromPnode: "" },
});
const move = (vnode: string, way: string) => event("vnode.placed", `VNode ${vnode} goes ${way}: has room`, vnode);

test("VNodes that go the same way at once are one line, where the first of them stood", () => {
  const lost = event("session.disturbed", "birch is lost");
  const back = event("session.recovered", "back");
  const moves = Array.from({ length: 46 }, (_, index) => move(`block_${index}`, "from birch to cedar"));
  const lines = condensed([lost, ...moves, move("head", "from birch to alder"), back]).map(({ message }) => message);
  assert.deepEqual(lines, [
    "birch is lost",
    "46 VNodes go from birch to cedar",
    "VNode head goes from birch to alder: has room",
    "back",
  ]);
});

test("a few moves are told one by one, with their reasons", () => {
  const few = [move("a", "to cedar"), move("b", "to alder")];
  assert.deepEqual(condensed(few), few);
});
