// What is kept for several units lies in the room once, and goes when the last of them lets it go.

import assert from "node:assert/strict";
import { test } from "node:test";
import { float32 } from "../../core/tensor.ts";
import { Room } from "./room.ts";

test("equal tables are kept once, until the last user lets them go", () => {
  const room = new Room();
  const table = () => float32([2, 2], [1, 2, 3, 4]);
  const [first, second] = [room.keep(table(), "a"), room.keep(table(), "b")];
  assert.equal(first, second);
  const other = room.keep(float32([2, 2], [1, 2, 3, 5]), "c");
  assert.notEqual(other, first);
  room.letGo(first);
  assert.deepEqual([...room.view(second, "float32", [4]).data], [1, 2, 3, 4]);
  room.letGo(second);
  assert.throws(() => room.letGo(second), /only what is kept/);
  // A new one: nobody finds what was let go.
  const again = room.keep(table(), "d");
  assert.deepEqual([...room.view(again, "float32", [4]).data], [1, 2, 3, 4]);
});
