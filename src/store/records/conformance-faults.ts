// The part of the StateStore conformance suite where things go wrong: lost requests and replies, racing processes, and
// hints between handles.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import { hasCode } from "../../core/errors.ts";
import { sleep, type World } from "../../core/world.ts";
import { countUp, type HotKeys, hotKeyNames, withLosses } from "./conformance-race.ts";
import { type StoreMethod, withFaults } from "./faulty.testing.ts";
import type { StateStore } from "./state-store.ts";
import { createItem, deleteItem, listItems, readItem, updateItem } from "./update.ts";

export interface StoreUnderTest {
  /** A handle of its own on the same data, as another process would have. */
  open(): Promise<StateStore>;
  /** For openStateStore in other processes; without it the racers share this process. */
  address?(): string;
}

/** Two handles on the same data. */
export type Stores = () => { store: StateStore; other: StateStore };

let prefixes = 0;

/** Keys of one test, in a database that all tests of all processes share. */
export function newPrefix(): string {
  return `conformance-${process.pid}-${prefixes++}/`;
}

export function describeFaults(stores: Stores, world: World): void {
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

export function describeWatch(stores: Stores, world: World): void {
  it("hints at writes and deletes of other handles, and of keys under the prefix only", async () => {
    const { store, other } = stores();
    const prefix = newPrefix();
    const { hinted, hintOf, cancel } = await startWatching(store, other, prefix, world);
    try {
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

export function describeRaces(stores: Stores, subject: StoreUnderTest, world: World): void {
  it("loses and repeats no count when 4 processes with lost replies race for hot keys, and hints at them", async () => {
    const { store, other } = stores();
    const hotKeys: HotKeys = { prefix: newPrefix(), keys: 3, countsPerKey: 10 };
    const address = subject.address?.();
    const { hintOf, cancel } = await startWatching(store, other, hotKeys.prefix, world);
    try {
      const racers = [0, 1, 2, 3].map(async (racer) => {
        if (address !== undefined) return countInProcess(address, hotKeys, racer);
        return countUp(withLosses(await subject.open(), racer), hotKeys, world);
      });
      for (const key of hotKeyNames(hotKeys)) await hintOf(key);
      await Promise.all(racers);
    } finally {
      cancel();
    }
    assert.deepEqual(await counts(store, hotKeys), [40, 40, 40]);
  });
}

/** A watch may take a moment to begin, so its first hint is provoked until it comes. */
async function startWatching(store: StateStore, other: StateStore, prefix: string, world: World) {
  const hinted: string[] = [];
  let wake = () => {};
  const cancel = store.watch(prefix, (keys) => {
    hinted.push(...keys);
    wake();
  });
  const woken = () => new Promise<void>((resolve) => (wake = resolve));
  const hintOf = async (key: string, since = 0) => {
    while (!hinted.includes(key, since)) await woken();
  };
  const first = `${prefix}first`;
  let version = 0;
  while (hinted.length === 0) {
    await other.put(first, "", version++);
    if (hinted.length === 0) await Promise.race([woken(), sleep(world.timers, 200)]);
  }
  await other.delete(first, version);
  return { hinted, hintOf, cancel };
}

async function countInProcess(address: string, hotKeys: HotKeys, racer: number): Promise<void> {
  const script = fileURLToPath(import.meta.resolve("./conformance-racer.ts"));
  const child = spawn(process.execPath, [script, address, JSON.stringify(hotKeys), String(racer)], {
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
