// The mirror against the store it mirrors: never older than what it has shown, never wrong for long.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { DcnrError } from "../../core/errors.ts";
import { silentLog, type World } from "../../core/world.ts";
import { openMemoryStore } from "../../store/memory.ts";
import type { StateStore } from "../../store/records/state-store.ts";
import { Mirror } from "./mirror.ts";
import { type Key, prefix } from "./store-keys.ts";

interface Counted {
  readonly count: number;
}

/** Timers run at once: nothing here waits for time to pass. */
function world(): World {
  let nowMs = 0;
  return {
    clock: { wallMs: () => nowMs, monotonicMs: () => nowMs },
    timers: {
      after: (delayMs, callback) => {
        nowMs += delayMs;
        queueMicrotask(callback);
        return () => {};
      },
    },
    chance: { bytes: (count) => Uint8Array.from({ length: count }, () => Math.random() * 256), uniform: () => 0.5 },
    log: silentLog,
  };
}

/** Of a kind that is mirrored, with other content. */
const counted = (name: string) => name as Key<Counted>;
const add = (current: Counted | undefined): Counted => ({ count: (current?.count ?? 0) + 1 });

describe("the mirror", () => {
  it("loses no update when two of them change one record at once", async () => {
    const store = openMemoryStore();
    const [a, b] = [new Mirror(store, world()), new Mirror(store, world())];
    await Promise.all(Array.from({ length: 8 }, (_, i) => (i % 2 ? a : b).update(counted("session/s"), add)));
    assert.equal((await a.read(counted("session/s")))?.count, 8);
  });

  it("learns of others' changes from hints, and of missed ones and deletions from a listing", async () => {
    const store = openMemoryStore();
    const [a, b] = [new Mirror(store, world()), new Mirror(store, world())];
    a.start();
    const seen: (number | undefined)[] = [];
    a.on("vnode", (now) => seen.push((now as Counted | undefined)?.count));
    await b.update(counted("vnode/s/v"), add);
    await new Promise(setImmediate);
    assert.equal(a.get(counted("vnode/s/v"))?.count, 1);
    a.stop();
    await b.update(counted("vnode/s/v"), add);
    await b.update(counted("vnode/s/w"), add);
    await a.refresh();
    assert.equal(a.get(counted("vnode/s/v"))?.count, 2);
    assert.equal(a.under(prefix.vnodesOf("s")).length, 2);
    await b.remove(counted("vnode/s/v"));
    await a.refresh();
    assert.equal(a.get(counted("vnode/s/v")), undefined);
    assert.deepEqual(seen, [1, 2, 1, undefined]);
  });

  it("does not go back to an older value that a slow read brings", async () => {
    const inner = openMemoryStore();
    let release = () => {};
    let slow = false;
    const store: StateStore = {
      ...bound(inner),
      get: async (key) => {
        const item = await inner.get(key);
        if (slow) {
          slow = false;
          await new Promise<void>((resolve) => {
            release = resolve;
          });
        }
        return item;
      },
    };
    const mirror = new Mirror(store, world());
    await mirror.update(counted("session/s"), add);
    slow = true;
    const late = mirror.read(counted("session/s"));
    await new Promise(setImmediate);
    await mirror.update(counted("session/s"), add);
    release();
    await late;
    assert.equal(mirror.get(counted("session/s"))?.count, 2);
  });

  it("remembers a deletion only for as long as an older read may still bring the record back", async () => {
    const inner = openMemoryStore();
    let release = () => {};
    let slow = false;
    const store: StateStore = {
      ...bound(inner),
      get: async (key) => {
        const item = await inner.get(key);
        if (key === "session/s" && slow) {
          slow = false;
          await new Promise<void>((resolve) => {
            release = resolve;
          });
        }
        return item;
      },
    };
    const mirror = new Mirror(store, world());
    for (let i = 0; i < 50; i++) await mirror.update(counted(`session/s${i}`), add);
    await mirror.update(counted("session/s"), add);
    slow = true;
    const late = mirror.read(counted("session/s"));
    await new Promise(setImmediate);
    await mirror.remove(counted("session/s"));
    for (let i = 0; i < 50; i++) await mirror.remove(counted(`session/s${i}`));
    assert.equal(mirror.remembered, 51);
    release();
    assert.equal((await late)?.count, 1);
    assert.equal(mirror.get(counted("session/s")), undefined, "what was deleted stays deleted");
    assert.equal(mirror.remembered, 0);
  });

  it("says since when the store has not answered, and forgets it when it answers again", async () => {
    const inner = openMemoryStore();
    let away = true;
    const store: StateStore = {
      ...bound(inner),
      list: async (prefix, options) => {
        if (away) throw new DcnrError("unavailable", "nobody there");
        return inner.list(prefix, options);
      },
    };
    const mirror = new Mirror(store, world());
    await assert.rejects(mirror.refresh(), /nobody there/);
    assert.equal(mirror.down?.reason, "nobody there");
    away = false;
    await mirror.refresh();
    assert.equal(mirror.down, undefined);
  });
});

function bound(store: StateStore): StateStore {
  return {
    get: (key) => store.get(key),
    put: (key, value, expected) => store.put(key, value, expected),
    delete: (key, expected) => store.delete(key, expected),
    list: (prefix, options) => store.list(prefix, options),
    watch: (prefix, onHint) => store.watch(prefix, onHint),
    close: () => store.close(),
  };
}
