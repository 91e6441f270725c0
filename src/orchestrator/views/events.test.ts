import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { silentLog, type World } from "../../core/world.ts";
import { openMemoryStore } from "../../store/memory.ts";
import { Events } from "./events.ts";

const world: World = {
  clock: { wallMs: () => 1_000, monotonicMs: () => 0 },
  timers: { after: () => () => {} },
  chance: { bytes: (count) => new Uint8Array(count), uniform: () => 0.5 },
  log: silentLog,
};

describe("events", () => {
  it("with others' words in them stay small enough to be listed and saved, however long the words are", async () => {
    const store = openMemoryStore();
    const events = new Events(world, store, "o1", "i1");
    const long = "x".repeat(350_000);
    for (let i = 0; i < 500; i++) events.emit("error", "evidence", `PNode ${long}`, { session: long, pnode: "p1" });
    const listed = events.list();
    assert.equal(listed.length, 500);
    assert.ok(JSON.stringify(listed).length < 4 << 20, "as one message");
    assert.match(listed[0]?.message ?? "", /^PNode x+…$/);
    assert.equal(listed[0]?.pnode, "p1");
    await events.flush();
    const { items } = await store.list("event/", {});
    const saved = items.map(({ value }) => JSON.parse(value) as { events: unknown[] });
    assert.equal(
      saved.reduce((sum, batch) => sum + batch.events.length, 0),
      500,
      "nothing is lost",
    );
    for (const batch of saved) assert.ok(JSON.stringify(batch).length < 400_000, "as one record");
  });
});
