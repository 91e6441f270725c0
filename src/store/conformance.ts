// What every StateStore must do, told as tests: `storeConformance("sqlite", { open, address })` is the whole test
// of a backend. Keys start with a prefix of their test, so one database serves all of them.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { after, before, describe, it } from "node:test";
import { hasCode } from "../core/errors.ts";
import { silentLog, type World } from "../core/world.ts";
import { countUp, type HotKeys } from "./conformance-race.ts";
import { type StoreMethod, withFaults } from "./faulty.ts";
import { keyBytesMax, type StateStore, type StoredItem, valueBytesMax } from "./state-store.ts";
import { createItem, deleteItem, listItems, readItem, updateItem } from "./update.ts";

export interface StoreUnderTest {
  /** A handle of its own on the same data, as another process would have. */
  open(): Promise<StateStore>;
  /** For openStateStore in other processes; without it the racers share this process. */
  address?(): string;
}

/** Real time and chance, for tests that talk to real servers. */
export const conformanceWorld: World = {
  clock: { wallMs: () => Date.now(), monotonicMs: () => performance.now() },
  timers: {
    after(delayMs, callback) {
      const timer = setTimeout(callback, delayMs);
      return () => clearTimeout(timer);
    },
  },
  chance: { bytes: (count) => new Uint8Array(randomBytes(count)), uniform: () => Math.random() },
  log: silentLog,
};

const world = conformanceWorld;
let prefixes = 0;
const newPrefix = () => `conformance-${process.pid}-${prefixes++}/`;

export function storeConformance(name: string, subject: StoreUnderTest): void {
  describe(`${name} keeps the promises of a StateStore`, () => {
    let store: StateStore;
    let other: StateStore;
    before(async () => {
      store = await subject.open();
      other = await subject.open();
    });
    after(async () => {
      await store?.close();
      await other?.close();
    });
    const stores = () => ({ store, other });
    describeItems(stores);
    describeLists(stores);
    describeLimits(stores);
    describeOutcomes(stores);
    describeWatch(stores);
    describeRaces(stores, subject);
    describeModel(stores);
  });
}

type Stores = () => { store: StateStore; other: StateStore };

function describeItems(stores: Stores): void {
  it("creates a key once, under version 1, and shows it to others at once", async () => {
    const { store, other } = stores();
    const key = `${newPrefix()}key`;
    assert.equal(await store.get(key), undefined);
    assert.equal(await store.put(key, "one", 0), 1);
    assert.equal(await other.put(key, "two", 0), undefined);
    assert.deepEqual(await other.get(key), { key, value: "one", version: 1 });
  });

  it("writes only over the version that was expected", async () => {
    const { store } = stores();
    const key = `${newPrefix()}key`;
    assert.equal(await store.put(key, "never", 1), undefined, "there is no version 1 yet");
    await store.put(key, "one", 0);
    assert.equal(await store.put(key, "two", 1), 2);
    assert.equal(await store.put(key, "late", 1), undefined);
    assert.equal(await store.put(key, "early", 3), undefined);
    assert.deepEqual(await store.get(key), { key, value: "two", version: 2 });
  });

  it("deletes only the version that was expected, and a recreated key starts at 1", async () => {
    const { store } = stores();
    const key = `${newPrefix()}key`;
    assert.equal(await store.delete(key, 0), false);
    assert.equal(await store.delete(key, 1), false);
    await store.put(key, "one", 0);
    await store.put(key, "two", 1);
    assert.equal(await store.delete(key, 1), false);
    assert.equal(await store.delete(key, 2), true);
    assert.equal(await store.get(key), undefined);
    assert.equal(await store.put(key, "stale", 2), undefined);
    assert.equal(await store.put(key, "again", 0), 1);
  });

  it("fences an owner that was replaced", async () => {
    const { store, other } = stores();
    const key = `${newPrefix()}vnode`;
    await createItem(store, key, { epoch: 1, owner: "old" }, world);
    const old = await store.get(key);
    await updateItem(other, key, () => ({ epoch: 2, owner: "new" }), world);
    assert.equal(await store.put(key, JSON.stringify({ epoch: 1, owner: "old" }), old!.version), undefined);
    assert.deepEqual((await readItem(store, key))?.record, { epoch: 2, owner: "new" });
  });

  it("gives back text as it was, without normalising it", async () => {
    const { store } = stores();
    const prefix = newPrefix();
    const texts = ["", "\"'\\\n\t%_;--", "\u00e9", "e\u0301", "\u{1F600}\uFFFD", "0", " "];
    for (const [index, text] of texts.entries()) {
      const key = `${prefix}${text}${index}`;
      await store.put(key, text, 0);
      assert.deepEqual(await store.get(key), { key, value: text, version: 1 });
    }
  });

  it("takes many writes at once, and each has its own outcome", async () => {
    const { store } = stores();
    const prefix = newPrefix();
    await store.put(`${prefix}7`, "taken", 0);
    const outcomes = await Promise.all(Array.from({ length: 100 }, (_, i) => store.put(`${prefix}${i}`, `${i}`, 0)));
    assert.deepEqual(
      outcomes,
      Array.from({ length: 100 }, (_, i) => (i === 7 ? undefined : 1)),
    );
    assert.equal((await all(store, prefix)).length, 100);
  });
}

function describeLists(stores: Stores): void {
  it("lists in byte order of the UTF-8 keys", async () => {
    const { store } = stores();
    const prefix = newPrefix();
    const names = [
      "z",
      "Z",
      "a",
      "a/",
      "a/b",
      "a0",
      "a-",
      "_",
      "é",
      "\uFFFD",
      "\uE000",
      "\u{1F600}",
      "\u{10000}",
      "10",
      "9",
    ];
    for (const name of names) await store.put(prefix + name, "", 0);
    const sorted = names.map((name) => prefix + name).sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    assert.deepEqual(await all(store, prefix), sorted);
    for (const limit of [1, 4]) assert.deepEqual(await all(store, prefix, limit), sorted);
  });

  it("lists what starts with the prefix and nothing beside it", async () => {
    const { store } = stores();
    const root = newPrefix();
    for (const name of ["p", "p.", "p/", "p/1", "p/2", "p0", "o/9", "P/1", "p/1/deeper"])
      await store.put(root + name, "", 0);
    assert.deepEqual(await all(store, `${root}p/`), [`${root}p/`, `${root}p/1`, `${root}p/1/deeper`, `${root}p/2`]);
    assert.deepEqual(await all(store, `${root}nothing`), []);
  });

  it("goes on after any key, present or not, and ends without a next page", async () => {
    const { store } = stores();
    const prefix = newPrefix();
    const keys = ["b", "d", "f", "h"].map((name) => prefix + name);
    for (const key of keys) await store.put(key, "", 0);
    const after = async (name: string, limit?: number) => {
      const page = await store.list(prefix, { after: name, limit });
      return [page.items.map(({ key }) => key), page.next];
    };
    assert.deepEqual(await after(`${prefix}d`), [keys.slice(2), undefined]);
    assert.deepEqual(await after(`${prefix}c`, 2), [keys.slice(1, 3), keys[2]]);
    assert.deepEqual(await after(`${prefix}h`), [[], undefined]);
    assert.deepEqual(await after("!"), [keys, undefined], "a start before the prefix");
    assert.deepEqual(await after("~"), [[], undefined], "a start beyond the prefix");
    assert.deepEqual((await store.list(prefix, { limit: 4 })).next, undefined, "a full last page is the last");
  });

  it("lists large values completely, in as many pages as it takes", async () => {
    const { store } = stores();
    const prefix = newPrefix();
    const value = "v".repeat(valueBytesMax);
    await Promise.all(Array.from({ length: 8 }, (_, i) => store.put(prefix + i, value, 0)));
    const items = await allItems(store, prefix);
    assert.deepEqual(
      items.map((item) => [item.key, item.value.length]),
      Array.from({ length: 8 }, (_, i) => [prefix + i, valueBytesMax]),
    );
  });
}

function describeLimits(stores: Stores): void {
  it("takes keys and values up to the limit and refuses more", async () => {
    const { store } = stores();
    const prefix = newPrefix();
    const longest = prefix + "k".repeat(keyBytesMax - prefix.length);
    const largest = "é".repeat(valueBytesMax / 2);
    assert.equal(await store.put(longest, largest, 0), 1);
    assert.equal((await store.get(longest))?.value, largest);
    await refused(store.put(`${longest}k`, "", 0), /has 1025 bytes/);
    await refused(store.put(`${prefix}x`, `${largest}x`, 0), /put large content into a blob/);
    assert.equal(await store.get(`${prefix}x`), undefined);
  });

  it("refuses what not every backend can keep", async () => {
    const { store } = stores();
    const prefix = newPrefix();
    await refused(store.put("", "", 0), /empty/);
    await refused(store.put(`${prefix}\0`, "", 0), /NUL/);
    await refused(store.put(`${prefix}\ud800`, "", 0), /surrogate/);
    await refused(store.put(`${prefix}x`, "\udc00", 0), /surrogate/);
    await refused(store.put(`${prefix}x`, "\0", 0), /NUL/);
    await refused(store.put(`${prefix}x`, "", -1), /version/);
    await refused(store.get(""), /empty/);
    await refused(store.list(prefix, { limit: 0 }), /limit/);
  });
}

function describeOutcomes(stores: Stores): void {
  it("counts exactly through lost requests and lost replies", async () => {
    const { store, other } = stores();
    const hotKeys: HotKeys = { prefix: newPrefix(), keys: 1, countsPerKey: 12 };
    let calls = 0;
    const fates = ["none", "lost reply", "lost request", "none", "lost reply"] as const;
    const faulty = withFaults(store, () => fates[calls++ % fates.length]!);
    await Promise.all([countUp(faulty, hotKeys, world), countUp(other, hotKeys, world)]);
    assert.deepEqual(await counts(store, hotKeys), [24]);
  });

  it("knows a create, and a write that others built upon, as its own after a lost reply", async () => {
    const { store, other } = stores();
    const key = `${newPrefix()}record`;
    const created = await createItem(loseFirstReply(store, "put"), key, { by: "first" }, world);
    assert.deepEqual(created, { record: { by: "first" }, version: 1, written: true });
    const meddled = loseFirstReply(store, "put", () =>
      updateItem<{ by: string }>(other, key, (r) => ({ by: `${r?.by}, other` }), world),
    );
    let runs = 0;
    const append = (record: { by: string } | undefined) => ({ by: `${record?.by}, mine ${++runs}` });
    assert.equal((await updateItem(meddled, key, append, world)).written, true);
    assert.deepEqual((await readItem(store, key))?.record, { by: "first, mine 1, other" });
  });

  it("gives up rather than guess when too many others wrote while a reply was lost", async () => {
    const { store, other } = stores();
    const key = `${newPrefix()}record`;
    const others = async () => {
      for (let i = 0; i < 20; i++) await updateItem(other, key, () => ({ by: i }), world);
    };
    const meddled = loseFirstReply(store, "put", others);
    await assert.rejects(
      updateItem(meddled, key, () => ({ by: "mine" }), world),
      (thrown) => hasCode(thrown, "aborted"),
    );
  });

  it("deletes once, though the reply was lost", async () => {
    const { store } = stores();
    const key = `${newPrefix()}record`;
    await createItem(store, key, { done: true }, world);
    assert.equal(await deleteItem(store, key, world, (record: { done: boolean }) => !record.done), false);
    assert.equal(await deleteItem(loseFirstReply(store, "delete"), key, world), true);
    assert.equal(await store.get(key), undefined);
  });

  it("leaves a record alone when there is nothing to change, and lists records as they were written", async () => {
    const { store } = stores();
    const prefix = newPrefix();
    await createItem(store, `${prefix}a`, { name: "a" }, world);
    const left = await updateItem(store, `${prefix}a`, () => undefined, world);
    assert.deepEqual(left, { record: { name: "a" }, version: 1, written: false });
    assert.deepEqual(await Array.fromAsync(listItems(store, prefix)), [
      { key: `${prefix}a`, record: { name: "a" }, version: 1 },
    ]);
  });
}

function describeWatch(stores: Stores): void {
  it("hints at writes and deletes of other handles, and of keys under the prefix only", async () => {
    const { store, other } = stores();
    const prefix = newPrefix();
    const hinted: string[] = [];
    let wake = () => {};
    const cancel = store.watch(prefix, (keys) => {
      hinted.push(...keys);
      wake();
    });
    const woken = () => new Promise<void>((resolve) => (wake = resolve));
    const hintOf = async (key: string, since: number) => {
      while (!hinted.includes(key, since)) await woken();
    };
    try {
      // A watch may take a moment to begin, so its first hint is provoked until it comes.
      for (let version = 0; hinted.length === 0; version++) {
        await other.put(`${prefix}first`, "", version);
        if (hinted.length === 0) await Promise.race([woken(), pause(200)]);
      }
      for (const change of [
        () => other.put(`${prefix}second`, "", 0),
        () => other.delete(`${prefix}second`, 1),
        () => store.put(`${prefix}second`, "", 0),
      ]) {
        const since = hinted.length;
        await other.put(`beside-${prefix}${since}`, "", 0);
        await change();
        await hintOf(`${prefix}second`, since);
      }
      assert.ok(hinted.every((key) => key.startsWith(prefix)));
    } finally {
      cancel();
    }
  });
}

function describeRaces(stores: Stores, subject: StoreUnderTest): void {
  it("loses and repeats no count when 4 processes with lost replies race for hot keys", async () => {
    const { store } = stores();
    const hotKeys: HotKeys = { prefix: newPrefix(), keys: 3, countsPerKey: 10 };
    const address = subject.address?.();
    await Promise.all(
      Array.from({ length: 4 }, async (_, racer) => {
        if (address !== undefined) return countInProcess(address, hotKeys, racer);
        const own = await subject.open();
        await countUp(own, hotKeys, world);
      }),
    );
    assert.deepEqual(await counts(store, hotKeys), [40, 40, 40]);
  });
}

function describeModel(stores: Stores): void {
  it("answers 150 random calls as a plain map would", async () => {
    const { store, other } = stores();
    const prefix = newPrefix();
    const model = new Map<string, StoredItem>();
    let state = 12345;
    const draw = (below: number) => {
      state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
      return (state >>> 8) % below;
    };
    for (let call = 0; call < 150; call++) {
      const handle = draw(2) === 0 ? store : other;
      const key = prefix + "abc"[draw(3)];
      const version = model.get(key)?.version ?? 0;
      const expected = draw(4) === 0 ? draw(5) : version;
      const matches = expected === version;
      if (draw(5) === 0) {
        assert.equal(
          await handle.delete(key, expected),
          matches && version > 0,
          `call ${call}: delete ${key}@${expected}`,
        );
        if (matches) model.delete(key);
      } else {
        const value = `value ${call}`;
        assert.equal(
          await handle.put(key, value, expected),
          matches ? expected + 1 : undefined,
          `call ${call}: put ${key}@${expected}`,
        );
        if (matches) model.set(key, { key, value, version: expected + 1 });
      }
      assert.deepEqual(await handle.get(key), model.get(key), `call ${call}: get ${key}`);
    }
    assert.deepEqual(
      await allItems(store, prefix),
      [...model.values()].sort((a, b) => (a.key < b.key ? -1 : 1)),
    );
  });
}

async function countInProcess(address: string, hotKeys: HotKeys, racer: number): Promise<void> {
  const script = new URL(`./conformance-racer.${import.meta.url.endsWith(".ts") ? "ts" : "js"}`, import.meta.url);
  const child = spawn(process.execPath, [script.pathname, address, JSON.stringify(hotKeys), String(racer)], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  let complaint = "";
  child.stderr.on("data", (text) => {
    complaint += text;
  });
  const [code] = await once(child, "close");
  assert.equal(code, 0, `racer ${racer} failed: ${complaint}`);
}

/** The first call of `method` happens, but its reply is lost; `meanwhile` runs before the caller reads again. */
function loseFirstReply(store: StateStore, method: StoreMethod, meanwhile?: () => Promise<unknown>): StateStore {
  let lost = false;
  let pending = meanwhile;
  const faulty = withFaults(store, (called) => {
    if (lost || called !== method) return "none";
    lost = true;
    return "lost reply";
  });
  const get: StateStore["get"] = async (key) => {
    const others = lost ? pending : undefined;
    if (others) pending = undefined;
    await others?.();
    return faulty.get(key);
  };
  return { ...faulty, get };
}

async function counts(store: StateStore, { prefix }: HotKeys): Promise<number[]> {
  return Array.fromAsync(listItems<{ count: number }>(store, prefix), ({ record }) => record.count);
}

async function allItems(store: StateStore, prefix: string, limit?: number): Promise<StoredItem[]> {
  const items: StoredItem[] = [];
  for (let next: string | undefined = ""; next !== undefined; ) {
    const page = await store.list(prefix, { limit, ...(next === "" ? {} : { after: next }) });
    assert.ok(limit === undefined || page.items.length <= limit, "a page is no longer than its limit");
    items.push(...page.items);
    next = page.next;
  }
  return items;
}

async function all(store: StateStore, prefix: string, limit?: number): Promise<string[]> {
  return (await allItems(store, prefix, limit)).map(({ key }) => key);
}

function refused(call: Promise<unknown>, sentence: RegExp): Promise<void> {
  return assert.rejects(call, (thrown: Error) => hasCode(thrown, "invalid_argument") && sentence.test(thrown.message));
}

function pause(delayMs: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, delayMs));
}
