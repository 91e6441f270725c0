// Records on top of the StateStore: read, list, and the compare-and-set loop that everything durable goes through.
// Each write leaves its writer's nonce in the record, so that a write whose reply was lost is recognised by reading.

import { DcnrError, fail } from "../../core/errors.ts";
import { Backoff, Retries } from "../../core/retry.ts";
import { sleep, type World } from "../../core/world.ts";
import type { StateStore, StoredItem } from "./state-store.ts";

type StoreWorld = Pick<World, "clock" | "timers" | "chance">;

/** A record must not use this field: it holds the nonces of the latest writers, newest first. */
const noncesField = "nonces";
/** A lost reply is recognised as long as fewer writers than this came in between. */
const noncesKept = 16;
const delayMsMin = 1;
const conflictDelayMsMax = 100;
const outageDelayMsMax = 1_000;

export interface Item<Record> {
  readonly key: string;
  readonly record: Record;
  readonly version: number;
}

export interface Updated<Record> {
  /** As this call wrote it or, when it wrote nothing, found it; undefined if there is none. */
  readonly record: Record | undefined;
  readonly version: number;
  /** Whether this call wrote it. */
  readonly written: boolean;
}

export interface UpdateOptions {
  /** How long an unreachable or contended store is tried. */
  readonly timeoutMs?: number;
}

export async function readItem<Record extends object>(
  store: StateStore,
  key: string,
): Promise<Item<Record> | undefined> {
  const stored = await store.get(key);
  return stored && parseItem<Record>(stored);
}

/** The record in a stored item, for whoever lists and watches by itself. */
export function parseItem<Record extends object>({ key, value, version }: StoredItem): Item<Record> {
  const { [noncesField]: _, ...record } = parse(key, value);
  return { key, record: record as Record, version };
}

/** All records under a prefix, in key order, fetched page by page. */
export async function* listItems<Record extends object>(
  store: StateStore,
  prefix: string,
): AsyncGenerator<Item<Record>> {
  let after: string | undefined;
  do {
    const page = await store.list(prefix, after === undefined ? {} : { after });
    for (const stored of page.items) yield parseItem<Record>(stored);
    after = page.next;
  } while (after !== undefined);
}

/**
 * Changes a record: `mutate` gets the current one (undefined if there is none) and returns the new one, or
 * undefined to leave it. It runs again when another writer was faster, so it must only compute. Its result is
 * written exactly once, even when replies of the store get lost. Throws `unavailable` when the store could not be
 * reached in time, and `aborted` when it is unknowable whether an earlier attempt was written.
 */
export async function updateItem<Record extends object>(
  store: StateStore,
  key: string,
  mutate: (current: Record | undefined) => Record | undefined,
  world: StoreWorld,
  options: UpdateOptions = {},
): Promise<Updated<Record>> {
  const attempts = new Attempts(store, key, world, options);
  /** A write whose reply was lost: it may have happened, or may still happen while the version is `expected`. */
  let uncertain: Write<Record> | undefined;
  for (;;) {
    const stored = await attempts.read();
    if (uncertain && wasWritten(stored, uncertain.expected, attempts.nonce)) return done(uncertain);
    if (uncertain?.expected !== versionOf(stored)) uncertain = undefined;
    const write = uncertain ?? nextWrite(stored, mutate, attempts.nonce);
    if (write === undefined) return unchanged(stored);
    try {
      if ((await store.put(key, write.value, write.expected)) !== undefined) return done(write);
      await attempts.conflict();
    } catch (thrown) {
      uncertain = write;
      await attempts.failed(thrown);
    }
  }
}

interface Write<Record> {
  readonly record: Record;
  readonly value: string;
  readonly expected: number;
}

function nextWrite<Record extends object>(
  stored: StoredItem | undefined,
  mutate: (current: Record | undefined) => Record | undefined,
  nonce: string,
): Write<Record> | undefined {
  const record = mutate(stored && parseItem<Record>(stored).record);
  return record && { record, value: serialize(record, stored, nonce), expected: versionOf(stored) };
}

function done<Record>({ record, expected }: Write<Record>): Updated<Record> {
  return { record, version: expected + 1, written: true };
}

function unchanged<Record extends object>(stored: StoredItem | undefined): Updated<Record> {
  return { record: stored && parseItem<Record>(stored).record, version: versionOf(stored), written: false };
}

function versionOf(stored: StoredItem | undefined): number {
  return stored?.version ?? 0;
}

/** Creates a record unless there is one already; `written` tells which. */
export function createItem<Record extends object>(
  store: StateStore,
  key: string,
  record: Record,
  world: StoreWorld,
  options?: UpdateOptions,
): Promise<Updated<Record>> {
  return updateItem<Record>(store, key, (current) => (current === undefined ? record : undefined), world, options);
}

/** Deletes a record if it exists and `condition` holds for it; tells whether it is gone. */
export async function deleteItem<Record extends object>(
  store: StateStore,
  key: string,
  world: StoreWorld,
  condition: (current: Record) => boolean = () => true,
  options: UpdateOptions = {},
): Promise<boolean> {
  const attempts = new Attempts(store, key, world, options);
  for (;;) {
    const stored = await attempts.read();
    if (stored === undefined) return true;
    if (!condition(parseItem<Record>(stored).record)) return false;
    try {
      if (await store.delete(key, stored.version)) return true;
      await attempts.conflict();
    } catch (thrown) {
      await attempts.failed(thrown);
    }
  }
}

/** One call's attempts at one key: its nonce, the waiting in between, and the end of patience. */
class Attempts {
  readonly nonce: string;
  readonly #store: StateStore;
  readonly #key: string;
  readonly #world: StoreWorld;
  readonly #deadlineMs: number;
  readonly #outages: Retries;
  readonly #conflicts: Backoff;

  constructor(store: StateStore, key: string, world: StoreWorld, { timeoutMs = 15_000 }: UpdateOptions) {
    this.#store = store;
    this.nonce = Buffer.from(world.chance.bytes(9)).toString("base64url");
    this.#key = key;
    this.#world = world;
    this.#deadlineMs = world.clock.monotonicMs() + timeoutMs;
    // There is no other store to go to.
    const outages = { minMs: delayMsMin, maxMs: outageDelayMsMax, patienceMs: timeoutMs, rounds: 1 };
    this.#outages = new Retries({ world, ...outages });
    this.#conflicts = new Backoff(delayMsMin, conflictDelayMsMax, world.chance);
  }

  async read(): Promise<StoredItem | undefined> {
    for (;;) {
      try {
        return await this.#store.get(this.#key);
      } catch (thrown) {
        await this.failed(thrown);
      }
    }
  }

  async conflict(): Promise<void> {
    if (this.#world.clock.monotonicMs() >= this.#deadlineMs)
      fail("unavailable", `other writers of "${this.#key}" were faster all the time: try again`);
    await sleep(this.#world.timers, this.#conflicts.next());
  }

  /** Only a store that could not answer is worth another attempt. */
  failed(thrown: unknown): Promise<void> {
    return this.#outages.again(thrown);
  }
}

type Noted = { [noncesField]?: unknown };

function serialize(record: object, replaced: StoredItem | undefined, nonce: string): string {
  const earlier = replaced ? noncesOf(replaced) : [];
  return JSON.stringify({ ...record, [noncesField]: [nonce, ...earlier].slice(0, noncesKept) });
}

function noncesOf({ key, value }: StoredItem): unknown[] {
  const nonces = parse(key, value)[noncesField];
  return Array.isArray(nonces) ? nonces : [];
}

/** A smaller version means that the key was deleted and made anew, which no earlier write survives. */
function wasWritten(stored: StoredItem | undefined, expected: number, nonce: string): boolean {
  if (stored === undefined) return false;
  if (noncesOf(stored).includes(nonce)) return true;
  const writes = stored.version - expected;
  if (writes > noncesKept)
    fail("aborted", `"${stored.key}" was written ${writes} times while a reply was lost: read it and decide again`);
  return false;
}

function parse(key: string, value: string): Noted {
  try {
    const record: unknown = JSON.parse(value);
    if (record !== null && typeof record === "object" && !Array.isArray(record)) return record;
  } catch {
    // Said below.
  }
  throw new DcnrError("data_loss", `the record "${key}" is not a JSON object: restore the store from a copy`);
}
