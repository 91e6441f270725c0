import assert from "node:assert/strict";
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { after, describe, it } from "node:test";
import { hasCode } from "../../core/errors.ts";
import type { Timers } from "../../core/world.ts";
import { storeConformance, conformanceWorld as world } from "./conformance.ts";
import { openSqliteStore } from "./sqlite.ts";

const folder = mkdtempSync(join(tmpdir(), "dcnr-sqlite-"));
after(() => rmSync(folder, { recursive: true }));

const shared = join(folder, "deep", "er", "store.db");
storeConformance("sqlite", {
  open: () => openSqliteStore({ path: shared, world }),
  address: () => `sqlite:${shared}`,
});

describe("an SQLite store", () => {
  it("still has what was written after it was closed and opened again", async () => {
    const path = join(folder, "again.db");
    const first = await openSqliteStore({ path, world });
    const writing = first.put("key", "value", 0);
    await first.close();
    assert.equal(await writing, 1, "a write that was under way is finished first");
    const second = await openSqliteStore({ path, world });
    assert.deepEqual(await second.get("key"), { key: "key", value: "value", version: 1 });
    await second.close();
    await assert.rejects(second.get("key"), /is closed/);
  });

  it("is created once by several that come first together", async () => {
    const path = join(folder, "together.db");
    const stores = await Promise.all(Array.from({ length: 8 }, () => openSqliteStore({ path, world })));
    const outcomes = await Promise.all(stores.map((store) => store.put("key", "value", 0)));
    assert.deepEqual(outcomes.filter(Boolean), [1]);
    for (const store of stores) await store.close();
  });

  it("hears of other processes' writes from the file system, and if that fails by looking now and then", async () => {
    for (const [name, told] of [
      ["told.db", true],
      ["untold.db", false],
    ] as const) {
      const path = join(folder, name);
      const writer = await openSqliteStore({ path, world });
      if (!told) rmSync(`${path}-signal`);
      if (!told) mkdirSync(`${path}-signal`);
      const looks: (() => void)[] = [];
      const timers: Timers = {
        after(_, callback) {
          looks.push(callback);
          return () => {};
        },
      };
      const reader = await openSqliteStore({ path, world: { ...world, timers } });
      const hinted = new Promise<readonly string[]>((resolve) => reader.watch("", resolve));
      await writer.put("key", "value", 0);
      if (!told) looks.at(-1)?.();
      assert.deepEqual(await hinted, ["key"]);
      assert.equal(looks.length > 0, true, "it would look by itself");
      await Promise.all([reader.close(), writer.close()]);
    }
  });

  it("waits for a writer that holds the lock, while the event loop goes on", async () => {
    const path = join(folder, "busy.db");
    const store = await openSqliteStore({ path, world });
    const holder = new DatabaseSync(path);
    holder.exec("BEGIN IMMEDIATE");
    const writing = store.put("key", "value", 0);
    assert.equal(await store.get("key"), undefined, "readers do not wait");
    await new Promise((resolve) => setTimeout(resolve, 0));
    holder.exec("COMMIT");
    holder.close();
    assert.equal(await writing, 1);
    await store.close();
  });

  it("says so when another process keeps the file locked, and works again afterwards", async () => {
    const path = join(folder, "locked.db");
    let nowMs = 0;
    const timers: Timers = {
      after(delayMs, callback) {
        nowMs += delayMs;
        queueMicrotask(callback);
        return () => {};
      },
    };
    const clock = { wallMs: () => nowMs, monotonicMs: () => nowMs };
    const store = await openSqliteStore({ path, world: { ...world, clock, timers } });
    const holder = new DatabaseSync(path);
    holder.exec("BEGIN IMMEDIATE");
    await assert.rejects(store.put("key", "value", 0), (thrown: Error) => {
      assert.ok(hasCode(thrown, "unavailable"));
      assert.match(thrown.message, /locked\.db has been locked by another process/);
      return true;
    });
    assert.ok(nowMs > 10_000 && nowMs < 60_000, `it waited ${nowMs} ms`);
    holder.exec("COMMIT");
    holder.close();
    assert.equal(await store.put("key", "value", 0), 1);
    await store.close();
  });

  it("says which file is damaged and leaves it as it is", async () => {
    for (const [name, spoil] of Object.entries(spoilers)) {
      const path = join(folder, `${name}.db`);
      await filledStore(path);
      spoil(path);
      const before = readFileSync(path);
      await assert.rejects(openSqliteStore({ path, world }), (thrown: Error) => {
        assert.ok(hasCode(thrown, "data_loss"), `${name}: ${thrown}`);
        assert.match(thrown.message, new RegExp(`${path}.*restore it from a copy`));
        return true;
      });
      assert.ok(readFileSync(path).equals(before), `${name}: nothing was lost`);
    }
  });

  it("refuses another program's SQLite file and a newer format, unchanged", async () => {
    const foreign = join(folder, "foreign.db");
    const database = new DatabaseSync(foreign);
    database.exec("CREATE TABLE holidays (name TEXT)");
    database.close();
    await assert.rejects(openSqliteStore({ path: foreign, world }), /another program/);
    const newer = join(folder, "newer.db");
    copyFileSync(foreign, newer);
    await filledStore(join(folder, "format.db"));
    const ours = new DatabaseSync(join(folder, "format.db"));
    ours.exec("PRAGMA user_version = 99");
    ours.close();
    await assert.rejects(openSqliteStore({ path: join(folder, "format.db"), world }), /format 99/);
  });

  it("says that the disk is full, stores nothing, and goes on when there is space", async () => {
    const path = join(folder, "full.db");
    const store = await openSqliteStore({ path, world, bytesMax: 100_000 });
    const large = "x".repeat(300_000);
    await assert.rejects(store.put("large", large, 0), (thrown: Error) => {
      assert.ok(hasCode(thrown, "resource_exhausted"));
      assert.match(thrown.message, /full\.db is full/);
      return true;
    });
    assert.equal(await store.get("large"), undefined);
    assert.equal(await store.put("small", "fits", 0), 1);
    await store.close();
  });

  it("names a path that cannot be used", async () => {
    const file = join(folder, "file");
    writeFileSync(file, "");
    await assert.rejects(openSqliteStore({ path: join(file, "store.db"), world }), /file\/store\.db.*check the path/);
    await assert.rejects(openSqliteStore({ path: folder, world }), /check the path/);
  });
});

const spoilers: Record<string, (path: string) => void> = {
  "not-sqlite": (path) => writeFileSync(path, "These are not the bytes of a database.".repeat(200)),
  "cut-short": (path) => truncateSync(path, readFileSync(path).length >> 1),
  "overwritten-page": (path) => {
    const content = readFileSync(path);
    content.fill(0xa5, 4096, 8192);
    writeFileSync(path, content);
  },
};

async function filledStore(path: string): Promise<void> {
  const store = await openSqliteStore({ path, world });
  await Promise.all(Array.from({ length: 20 }, (_, i) => store.put(`key/${i}`, "v".repeat(2000), 0)));
  await store.close();
}

it("is readable by its owner alone: the network's key is in it", { skip: process.platform === "win32" }, async () => {
  const path = join(folder, "private.db");
  const before = process.umask(0);
  try {
    await (await openSqliteStore({ path, world })).close();
  } finally {
    process.umask(before);
  }
  assert.equal(statSync(path).mode & 0o077, 0);
});
