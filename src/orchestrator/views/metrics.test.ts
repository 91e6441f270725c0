import assert from "node:assert/strict";
import { test } from "node:test";
import type { SessionId } from "../../core/ids.ts";
import { openMemoryStore } from "../../store/memory.ts";
import type { Context } from "../context.ts";
import { Metrics } from "./metrics.ts";

const world = {
  clock: { wallMs: () => 0, monotonicMs: () => 0 },
  timers: { after: () => () => {} },
  chance: { bytes: (count: number) => new Uint8Array(count), uniform: () => 0.5 },
};

test("an orchestrator that starts anew knows the last numbers of sessions that others saw", async () => {
  const store = openMemoryStore();
  const open = (incarnation: string) =>
    new Metrics({ mirror: { store, get: () => undefined }, world, incarnation } as unknown as Context);
  const before = open("one");
  const id = "s-1" as SessionId;
  for (let step = 1; step <= 5_000; step++) {
    before.add(id, [{ name: "loss", step, value: 1 / step, vnode: "head" }]);
    if (step % 1_000 === 0) await before.flush();
  }
  before.add(id, [{ name: "validation_loss", step: 4_900, value: 3, vnode: "head" }]);
  await before.flush();

  const after = open("two");
  assert.equal(after.newest(id, "loss"), undefined);
  await after.recall([
    { id, line: 5_000 },
    { id: "fresh" as SessionId, line: 0 },
  ]);
  assert.equal(after.newest(id, "loss")?.value, 1 / 5_000);
  assert.equal(after.newest(id, "validation_loss")?.value, 3);
  assert.deepEqual(after.recent(id), [], "what watchers have seen before is not told again");
  after.add(id, [{ name: "loss", step: 5_001, value: 7, vnode: "head" }]);
  await after.recall([{ id, line: 5_000 }]);
  assert.equal(after.newest(id, "loss")?.value, 7);
});
