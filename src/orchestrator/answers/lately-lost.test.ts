import assert from "node:assert/strict";
import { test } from "node:test";
import type { PNodeId } from "../../core/ids.ts";
import type { Context } from "../context.ts";
import { LatelyLost } from "./lately-lost.ts";

test("a machine was lost a moment ago for half a minute; one that left, or was lost before it was seen here, was not", () => {
  let nowMs = 0;
  let changed: (now: unknown, before: unknown) => void = () => {};
  const lost = new LatelyLost({
    world: { clock: { monotonicMs: () => nowMs } },
    mirror: { on: (_: string, listener: typeof changed) => (changed = listener) },
  } as unknown as Context);
  const goes = (id: string, status: string, from?: string) => changed({ id, status }, from && { id, status: from });
  goes("a", "lost", "online");
  goes("b", "left", "online");
  goes("c", "lost");
  goes("d", "lost", "left");
  const which = () => ["a", "b", "c", "d"].filter((id) => lost.has(id as PNodeId));
  assert.deepEqual(which(), ["a"]);
  nowMs = 29_999;
  assert.deepEqual(which(), ["a"]);
  nowMs = 30_000;
  assert.deepEqual(which(), []);
});
