// What every StateStore must do, told as tests: `storeConformance("sqlite", { open, address })` is the whole test
// of a backend. Keys start with a prefix of their test, so one database serves all of them.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { hasCode } from "../../core/errors.ts";
import { realWorld } from "../../system/world.ts";
import {
  describeFaults,
  describeRaces,
  describeWatch,
  newPrefix,
  type Stores,
  type StoreUnderTest,
} from "./conformance-faults.ts";
import { keyBytesMax, type StateStore, type StoredItem, valueBytesMax } from "./state-store.ts";
import { createItem, readItem, updateItem } from "./update.ts";

/** Real time and chance: these tests talk to real files and servers. */
export const conformanceWorld = realWorld({ logFormat: "none" });

const world = conformanceWorld;

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
    describeFaults(stores, world);
    describeWatch(stores, world);
    describeRaces(stores, subject, world);
    describeModel(stores);
  });
}

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

  it("gives each item to one of two handles that create, replace and delete the same ones at once, in any order", async () => {
    const { store, other } = stores();
    const keys = Array.from({ length: 40 }, (_, index) => `${newPrefix()}${index}`);
    const round = async (work: (handle: StateStore, key: string) => Promise<boolean>) => {
      const forwards = Promise.all(keys.map((key) => work(store, key)));
      const backwards = Promise.all(keys.toReversed().map((key) => work(other, key)));
      const [one, two] = [await forwards, (await backwards).toReversed()];
      assert.deepEqual(
        keys.map((_, index) => Number(one[index]) + Number(two[index])),
        keys.map(() => 1),
      );
    };
    for (let turn = 0; turn < 3; turn++) {
      await round(async (handle, key) => (await handle.put(key, "one", 0)) === 1);
      await round(async (handle, key) => (await handle.put(key, "two", 1)) === 2);
      await round((handle, key) => handle.delete(key, 2));
    }
  });

  it("lets one of several writes of a call's turn to one item through", async () => {
    const { store } = stores();
    const key = `${newPrefix()}key`;
    const values = ["a", "b", "c"];
    const outcomes = await Promise.all(values.map((value) => store.put(key, value, 0)));
    assert.deepEqual(outcomes.toSorted(), [1, undefined, undefined]);
    assert.equal((await store.get(key))?.value, values[outcomes.indexOf(1)]);
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
