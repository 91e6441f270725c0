import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "../../core/errors.ts";
import type { World } from "../../core/world.ts";
import { openMemoryStore } from "../memory.ts";
import { withFaults } from "./faulty.testing.ts";
import { createItem, deleteItem, readItem, updateItem } from "./update.ts";

/** A world whose time passes only by waiting in it. */
function quickWorld(): World & { waitedMs(): number } {
  let nowMs = 0;
  let draws = 0;
  return {
    clock: { wallMs: () => nowMs, monotonicMs: () => nowMs },
    timers: {
      after(delayMs, callback) {
        let cancelled = false;
        queueMicrotask(() => {
          if (cancelled) return;
          nowMs += delayMs;
          callback();
        });
        return () => {
          cancelled = true;
        };
      },
    },
    chance: { bytes: (count) => new Uint8Array(count).fill(++draws), uniform: () => 0.5 },
    log: () => {},
    waitedMs: () => nowMs,
  };
}

describe("updateItem", () => {
  it("outlasts a store that is down for a minute, when asked to", async () => {
    const world = quickWorld();
    const inner = openMemoryStore();
    await createItem(inner, "key", { count: 1 }, world);
    const store = withFaults(inner, () => (world.waitedMs() < 60_000 ? "lost request" : "none"));
    const count = (record: { count: number } | undefined) => ({ count: (record?.count ?? 0) + 1 });
    const updated = await updateItem(store, "key", count, world, { timeoutMs: 90_000 });
    assert.deepEqual(updated, { record: { count: 2 }, version: 2, written: true });
    assert.ok(world.waitedMs() < 62_000, "it notices soon that the store is back");
  });

  it("gives up in the time it was given, with the store's own words", async () => {
    const world = quickWorld();
    const store = withFaults(openMemoryStore(), () => "lost request");
    const updating = updateItem(store, "key", () => ({}), world, { timeoutMs: 5_000 });
    await assert.rejects(
      updating,
      (thrown: Error) => hasCode(thrown, "unavailable") && /get "key"/.test(thrown.message),
    );
    await assert.rejects(
      deleteItem(store, "key", world, () => true, { timeoutMs: 5_000 }),
      /did not answer/,
    );
    assert.ok(world.waitedMs() < 13_000);
  });

  it("repeats nothing that fails for another reason, nor what mutate itself throws", async () => {
    const world = quickWorld();
    const store = openMemoryStore();
    const large = "x".repeat(400_000);
    await assert.rejects(
      updateItem(store, "key", () => ({ large }), world),
      /put large content into a blob/,
    );
    const refuse = () => {
      throw new Error("not this one");
    };
    await assert.rejects(updateItem(store, "key", refuse, world), /not this one/);
    assert.equal(world.waitedMs(), 0);
  });

  it("writes the decision of its first run when the write arrives late, after a repetition", async () => {
    const world = quickWorld();
    const inner = openMemoryStore();
    let late: (() => Promise<unknown>) | undefined;
    const store = { ...withFaults(inner, () => "none"), put: inner.put.bind(inner) };
    store.put = async (key, value, expected) => {
      if (late === undefined) {
        late = () => inner.put(key, value, expected);
        return withFaults(inner, () => "lost request").put(key, value, expected);
      }
      await late();
      return inner.put(key, value, expected);
    };
    let runs = 0;
    const updated = await updateItem(store, "key", () => ({ run: ++runs }), world);
    assert.deepEqual(updated, { record: { run: 1 }, version: 1, written: true });
    assert.deepEqual((await readItem(inner, "key"))?.record, { run: 1 });
  });

  it("says which record is not one", async () => {
    const store = openMemoryStore();
    for (const value of ["", "[1]", "null", "{"]) {
      await store.put(`key${value}`, value, 0);
      await assert.rejects(readItem(store, `key${value}`), (thrown) => hasCode(thrown, "data_loss"));
    }
  });
});
