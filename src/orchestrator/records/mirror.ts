// The orchestrator's view of the store: records parsed once, kept current by hints and by listing now and
// then, and written only by compare-and-set. It may be stale; a write finds out and reads again.

import { DcnrError } from "../../core/errors.ts";
import type { Cancel, World } from "../../core/world.ts";
import type { ListPage, StateStore, StoredItem } from "../../store/records/state-store.ts";
import { deleteItem, parseItem, updateItem } from "../../store/records/update.ts";
import {
  type Key,
  type MirroredKind,
  type MirroredKinds,
  mirroredKindOf,
  mirroredKinds,
  type Prefix,
} from "./store-keys.ts";

interface Entry {
  readonly value: object;
  readonly version: number;
  /** When it was applied, in applications: an older read must not replace it. */
  readonly stamp: number;
}

/** `now` is undefined after a deletion, `before` at the first sight. */
type ChangeListener<T> = (now: T | undefined, before: T | undefined) => void;

/** A caller of the API waits this long for a store that does not answer, then hears so. */
const writeTimeoutMs = 5_000;
const hintReadsAtOnce = 32;

export class Mirror {
  readonly #store: WatchedStore;
  readonly #world: World;
  readonly #entries = new Map<string, Entry>();
  /** When keys were deleted, oldest first; kept only while a read may be on its way that began before. */
  readonly #deleted = new Map<string, number>();
  /** How many reads and writes are on their way, by the number of applications when they began; oldest first. */
  readonly #underWay = new Map<number, number>();
  readonly #byPrefix = new Map<string, Map<string, Entry>>();
  readonly #listeners = new Map<MirroredKind, ChangeListener<object>[]>();
  readonly #onAny: (() => void)[] = [];
  readonly #hinted = new Set<string>();
  readonly #unwatch: Cancel[] = [];
  #applications = 0;
  #reading = false;
  #stopped = false;

  constructor(store: StateStore, world: World) {
    this.#store = new WatchedStore(store, world);
    this.#world = world;
  }

  get store(): StateStore {
    return this.#store;
  }

  /** Undefined while the store answers. */
  get down(): { sinceMs: number; reason: string } | undefined {
    return this.#store.down;
  }

  /** Grows with every change that was seen. */
  get changes(): number {
    return this.#applications;
  }

  /** Records name themselves, so a listener needs no key. */
  on<K extends MirroredKind>(kind: K, listener: ChangeListener<MirroredKinds[K]>): void {
    const all = this.#listeners.get(kind) ?? [];
    this.#listeners.set(kind, all);
    all.push(listener as ChangeListener<object>);
  }

  onAny(listener: () => void): void {
    this.#onAny.push(listener);
  }

  start(): void {
    for (const kind of mirroredKinds) {
      this.#unwatch.push(this.#store.watch(`${kind}/`, (keys) => this.#onHint(keys)));
    }
  }

  stop(): void {
    this.#stopped = true;
    for (const unwatch of this.#unwatch) unwatch();
  }

  get<T extends object>(key: Key<T>): T | undefined {
    return this.#entries.get(key)?.value as T | undefined;
  }

  version(key: Key<object>): number {
    return this.#entries.get(key)?.version ?? 0;
  }

  /** All records of a kind, or of one session's VNodes, in no particular order. */
  under<T extends object>(prefix: Prefix<T>): T[] {
    const group = this.#byPrefix.get(prefix);
    return group ? Array.from(group.values(), (entry) => entry.value as T) : [];
  }

  /** Lists everything that is mirrored; throws `unavailable` if the store does not answer. */
  async refresh(): Promise<void> {
    for (const kind of mirroredKinds) await this.#timed((began) => this.#refreshPrefix(`${kind}/`, began));
  }

  async #refreshPrefix(prefix: string, began: number): Promise<void> {
    const seen = new Set<string>();
    let after: string | undefined;
    do {
      const page = await this.#store.list(prefix, after === undefined ? {} : { after });
      for (const item of page.items) {
        seen.add(item.key);
        this.#apply(item.key, item, began);
      }
      after = page.next;
    } while (after !== undefined);
    const gone = Array.from(this.#byPrefix.get(prefix)?.keys() ?? []).filter((key) => !seen.has(key));
    for (const key of gone) this.#apply(key, undefined, began);
  }

  read<T extends object>(key: Key<T>): Promise<T | undefined> {
    return this.#readKey(key) as Promise<T | undefined>;
  }

  #readKey(key: string): Promise<object | undefined> {
    return this.#timed(async (began) => {
      const item = await this.#store.get(key);
      this.#apply(key, item, began);
      return item && parseItem<object>(item).record;
    });
  }

  /**
   * Changes one record: `change` gets the newest value and returns the next, or undefined to leave it alone.
   * It may run several times. Returns what stands in the store afterwards and whether this call wrote it.
   */
  update<T extends object>(
    key: Key<T>,
    change: (current: T | undefined) => NoInfer<T> | undefined,
    timeoutMs = writeTimeoutMs,
  ): Promise<{ record: T | undefined; written: boolean }> {
    return this.#timed(async (began) => {
      const { record, version, written } = await updateItem<T>(this.#store, key, change, this.#world, { timeoutMs });
      this.#applyEntry(key, record && { value: record, version }, began);
      return { record, written };
    });
  }

  /** Deletes a record if `condition` holds for it; tells whether it is gone. */
  remove<T extends object>(key: Key<T>, condition: (current: NoInfer<T>) => boolean = () => true): Promise<boolean> {
    return this.#timed(async (began) => {
      const gone = await deleteItem<T>(this.#store, key, this.#world, condition, { timeoutMs: writeTimeoutMs });
      if (gone) this.#applyEntry(key, undefined, began);
      return gone;
    });
  }

  /** Deletions since the oldest read or write under way are remembered; earlier ones nothing can undo. */
  async #timed<T>(work: (began: number) => Promise<T>): Promise<T> {
    const began = this.#applications;
    this.#underWay.set(began, (this.#underWay.get(began) ?? 0) + 1);
    try {
      return await work(began);
    } finally {
      const left = (this.#underWay.get(began) ?? 0) - 1;
      if (left > 0) this.#underWay.set(began, left);
      else this.#underWay.delete(began);
      const oldest = this.#underWay.keys().next().value ?? Number.POSITIVE_INFINITY;
      for (const [key, stamp] of this.#deleted) {
        if (stamp > oldest) break;
        this.#deleted.delete(key);
      }
    }
  }

  /** How many deletions are remembered, for tests. */
  get remembered(): number {
    return this.#deleted.size;
  }

  #onHint(keys: readonly string[]): void {
    for (const key of keys) this.#hinted.add(key);
    if (!this.#reading) void this.#readHinted();
  }

  async #readHinted(): Promise<void> {
    this.#reading = true;
    while (this.#hinted.size > 0 && !this.#stopped) {
      const batch = Array.from(this.#hinted).slice(0, hintReadsAtOnce);
      for (const key of batch) this.#hinted.delete(key);
      // A failed read is made up for by the next listing.
      await Promise.all(batch.map((key) => this.#readKey(key).catch(() => undefined)));
    }
    this.#reading = false;
  }

  #apply(key: string, item: StoredItem | undefined, began: number): void {
    if (item && this.#entries.get(key)?.version === item.version) return;
    this.#applyEntry(key, item && { value: parseItem<object>(item).record, version: item.version }, began);
  }

  /** Takes what a read or write that began at `began` found, unless something newer was applied since. */
  #applyEntry(key: string, found: Omit<Entry, "stamp"> | undefined, began: number): void {
    const kind = mirroredKindOf(key);
    if (kind === undefined) return;
    const before = this.#entries.get(key);
    const overtaken = (before?.stamp ?? this.#deleted.get(key) ?? 0) > began;
    if (overtaken && !(found && before && found.version > before.version)) return;
    if (before?.version === found?.version) return;
    const stamp = ++this.#applications;
    const entry = found && { ...found, stamp };
    for (const prefix of prefixesOf(key)) {
      const group = this.#byPrefix.get(prefix) ?? new Map<string, Entry>();
      this.#byPrefix.set(prefix, group);
      if (entry) group.set(key, entry);
      else group.delete(key);
      if (group.size === 0) this.#byPrefix.delete(prefix);
    }
    this.#deleted.delete(key);
    if (entry) this.#entries.set(key, entry);
    else {
      this.#entries.delete(key);
      this.#deleted.set(key, stamp);
    }
    for (const listener of this.#listeners.get(kind) ?? []) listener(entry?.value, before?.value);
    for (const listener of this.#onAny) listener();
  }
}

/** Notes when the store stopped answering, for health. */
class WatchedStore implements StateStore {
  readonly #inner: StateStore;
  readonly #world: World;
  down: { sinceMs: number; reason: string } | undefined;

  constructor(inner: StateStore, world: World) {
    this.#inner = inner;
    this.#world = world;
  }

  get(key: string): Promise<StoredItem | undefined> {
    return this.#noting(this.#inner.get(key));
  }

  put(key: string, value: string, expected: number): Promise<number | undefined> {
    return this.#noting(this.#inner.put(key, value, expected));
  }

  delete(key: string, expected: number): Promise<boolean> {
    return this.#noting(this.#inner.delete(key, expected));
  }

  list(prefix: string, options?: { after?: string; limit?: number }): Promise<ListPage> {
    return this.#noting(this.#inner.list(prefix, options));
  }

  watch(prefix: string, onHint: (keys: readonly string[]) => void): Cancel {
    return this.#inner.watch(prefix, onHint);
  }

  /** The store belongs to whoever opened it. */
  async close(): Promise<void> {}

  async #noting<T>(outcome: Promise<T>): Promise<T> {
    try {
      const result = await outcome;
      this.down = undefined;
      return result;
    } catch (thrown) {
      const error = DcnrError.from(thrown, "unavailable");
      if (error.code === "unavailable")
        this.down = { sinceMs: this.down?.sinceMs ?? this.#world.clock.monotonicMs(), reason: error.message };
      throw error;
    }
  }
}

function prefixesOf(key: string): string[] {
  const first = key.indexOf("/") + 1;
  const second = key.indexOf("/", first) + 1;
  return second > 0 ? [key.slice(0, first), key.slice(0, second)] : [key.slice(0, first)];
}
