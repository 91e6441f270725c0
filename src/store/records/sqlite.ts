// The default store: one SQLite file, shared by any number of processes on a machine, durable at each commit.
// Calls that arrive together share one transaction, since a commit costs one disk flush however much it holds.

import { closeSync, existsSync, mkdirSync, openSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { type DcnrError, fail } from "../../core/errors.ts";
import { type Cancel, every, sleep, type World } from "../../core/world.ts";
import { FileSignal } from "./file-signal.ts";
import { Hints } from "./hints.ts";
import { checkKey, checkValue, checkVersion, compareKeys, keyEnd, listRange, PageBuilder } from "./items.ts";
import { isBusy, sqliteError } from "./sqlite-errors.ts";
import type { ListPage, StateStore, StoredItem } from "./state-store.ts";

type StoreWorld = Pick<World, "clock" | "timers" | "chance">;

export interface SqliteStoreOptions {
  readonly path: string;
  readonly world: StoreWorld;
  /** A bound for the file: what would exceed it is refused as on a full disk. */
  readonly bytesMax?: number;
}

/** "DCNR" in the file's header: tells our files from other programs' SQLite files. */
const applicationId = 0x44434e52;
const schemaVersion = 1;
/** Longer than any commit of another process; after it the file is held by something that is stuck. */
const busyTimeoutMs = 20_000;
/** Other processes' writes are noticed within this time where the file system does not tell of them. */
const watchIntervalMs = 50;
/** Where it does, looking is only for what was missed: each look wakes an idle process. */
const watchIntervalToldMs = 500;
/** How many changes are kept for watchers of other processes. Who falls behind further misses hints, not data. */
const changesKept = 4096;
/** More writes than this in one transaction would keep other processes waiting. */
const groupSizeMax = 256;

const schema = `
  CREATE TABLE items (key TEXT PRIMARY KEY, value TEXT NOT NULL, version INTEGER NOT NULL) STRICT, WITHOUT ROWID;
  CREATE TABLE changes (sequence INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL) STRICT;
  PRAGMA application_id = ${applicationId};
  PRAGMA user_version = ${schemaVersion};
`;

export async function openSqliteStore(options: SqliteStoreOptions): Promise<StateStore> {
  const { path, world, bytesMax } = options;
  let database: DatabaseSync | undefined;
  try {
    mkdirSync(dirname(path), { recursive: true });
    // The network's key and what API keys are checked against are inside; SQLite's other files follow this one.
    if (!existsSync(path)) closeSync(openSync(path, "a", 0o600));
    // No busy timeout: waiting inside SQLite would freeze the event loop. We wait outside, see whenFree.
    database = new DatabaseSync(path, { timeout: 0 });
    const opened = database;
    await whenFree(world, () => prepareFile(opened, path));
    if (bytesMax !== undefined)
      opened.exec(`PRAGMA max_page_count = ${Math.floor(bytesMax / pragma(opened, "page_size"))}`);
    return new SqliteStore(opened, path, world);
  } catch (thrown) {
    database?.close();
    throw sqliteError(thrown, path);
  }
}

function prepareFile(database: DatabaseSync, path: string): void {
  // In this order: the process that creates the tables marks the file in the same transaction.
  const tables = database.prepare("SELECT count(*) AS count FROM sqlite_schema").get() as { count: number };
  const known = pragma(database, "application_id") === applicationId;
  if (!known && tables.count > 0)
    fail("failed_precondition", `${path} is an SQLite file of another program: name another path for the store`);
  database.exec("PRAGMA journal_mode = WAL");
  database.exec("PRAGMA synchronous = FULL");
  if (!known) createSchema(database);
  const version = pragma(database, "user_version");
  if (version !== schemaVersion)
    fail(
      "failed_precondition",
      `the store ${path} has format ${version}, this version of dcnr reads format ${schemaVersion}: use the version that wrote it, or another path`,
    );
  const check = database.prepare("PRAGMA quick_check(1)").get() as { quick_check: string };
  if (check.quick_check !== "ok") throw sqliteError({ errcode: 11, errstr: check.quick_check }, path);
}

/** Another process may have created the schema while this one waited for the lock. */
function createSchema(database: DatabaseSync): void {
  inTransaction(database, () => {
    if (pragma(database, "application_id") !== applicationId) database.exec(schema);
  });
}

function pragma(database: DatabaseSync, name: string): number {
  const row = database.prepare(`PRAGMA ${name}`).get() as Record<string, number>;
  return row[name] ?? 0;
}

/** IMMEDIATE takes the write lock first: a transaction that reads and then writes could not wait for it later. */
function inTransaction(database: DatabaseSync, work: () => void): void {
  database.exec("BEGIN IMMEDIATE");
  try {
    work();
    database.exec("COMMIT");
  } catch (thrown) {
    if (database.isTransaction) database.exec("ROLLBACK");
    throw thrown;
  }
}

/** Runs when no other process holds the lock that is needed; the waiting does not block the event loop. */
async function whenFree<Result>(world: StoreWorld, work: () => Result): Promise<Result> {
  const giveUpMs = world.clock.monotonicMs() + busyTimeoutMs;
  for (let attempt = 0; ; attempt++) {
    try {
      return work();
    } catch (thrown) {
      if (!isBusy(thrown) || world.clock.monotonicMs() > giveUpMs) throw thrown;
      await sleep(world.timers, 1 + world.chance.uniform() * Math.min(50, 2 ** attempt));
    }
  }
}

interface QueuedWrite {
  readonly key: string;
  /** Undefined deletes. */
  readonly value: string | undefined;
  readonly expected: number;
  readonly resolve: (written: boolean) => void;
  readonly reject: (error: DcnrError) => void;
}

class SqliteStore implements StateStore {
  readonly #database: DatabaseSync;
  readonly #path: string;
  readonly #world: StoreWorld;
  readonly #hints = new Hints();
  readonly #statements: ReturnType<typeof prepareStatements>;
  readonly #signal: FileSignal;
  #queue: QueuedWrite[] = [];
  #flushing: Promise<void> | undefined;
  #flushedMs = Number.NEGATIVE_INFINITY;
  #stopWatching: Cancel | undefined;
  #closed = false;

  constructor(database: DatabaseSync, path: string, world: StoreWorld) {
    this.#database = database;
    this.#path = path;
    this.#world = world;
    this.#statements = prepareStatements(database);
    this.#signal = new FileSignal(`${path}-signal`);
  }

  async get(key: string): Promise<StoredItem | undefined> {
    checkKey(key);
    return this.#read(() => {
      const row = this.#statements.get.get(key);
      return row && toItem(row);
    });
  }

  async put(key: string, value: string, expected: number): Promise<number | undefined> {
    checkKey(key);
    checkValue(key, value);
    checkVersion(key, expected);
    return (await this.#write(key, value, expected)) ? expected + 1 : undefined;
  }

  async delete(key: string, expected: number): Promise<boolean> {
    checkKey(key);
    checkVersion(key, expected);
    return this.#write(key, undefined, expected);
  }

  async list(prefix: string, options?: { after?: string; limit?: number }): Promise<ListPage> {
    const { after, limit } = listRange(prefix, options);
    return this.#read(() => {
      const page = new PageBuilder(limit);
      const resumes = after !== undefined && compareKeys(after, prefix) >= 0;
      const statement = resumes ? this.#statements.listAfter : this.#statements.listFrom;
      for (const row of statement.iterate(resumes ? after : prefix, prefix + keyEnd, limit + 1))
        if (!page.add(toItem(row))) break;
      return page.page();
    });
  }

  watch(prefix: string, onHint: (keys: readonly string[]) => void): Cancel {
    this.#checkOpen();
    const cancel = this.#hints.watch(prefix, onHint);
    this.#stopWatching ??= this.#watchOtherWriters();
    return () => {
      cancel();
      if (this.#hints.watched) return;
      this.#stopWatching?.();
      this.#stopWatching = undefined;
    };
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#stopWatching?.();
    this.#hints.clear();
    await this.#flushing;
    this.#signal.close();
    this.#database.close();
  }

  async #read<Result>(work: () => Result): Promise<Result> {
    this.#checkOpen();
    try {
      return await whenFree(this.#world, work);
    } catch (thrown) {
      throw sqliteError(thrown, this.#path);
    }
  }

  #write(key: string, value: string | undefined, expected: number): Promise<boolean> {
    this.#checkOpen();
    return new Promise((resolve, reject) => {
      this.#queue.push({ key, value, expected, resolve, reject });
      this.#flushing ??= this.#flush();
    });
  }

  /** Writes all that is queued, a transaction at a time. */
  async #flush(): Promise<void> {
    // A lone write goes out at once. Just after a commit more calls are likely waiting in the event loop: let them join.
    const idle = this.#world.clock.monotonicMs() - this.#flushedMs > 5;
    await (idle ? undefined : sleep(this.#world.timers, 0));
    while (this.#queue.length > 0) {
      const group = this.#queue.splice(0, groupSizeMax);
      try {
        const written = await whenFree(this.#world, () => this.#commit(group));
        this.#hints.changed(group.filter((_, index) => written[index]).map(({ key }) => key));
        this.#signal.give();
        for (const [index, { resolve }] of group.entries()) resolve(written[index]!);
      } catch (thrown) {
        const error = sqliteError(thrown, this.#path);
        for (const { reject } of group) reject(error);
      }
    }
    this.#flushedMs = this.#world.clock.monotonicMs();
    this.#flushing = undefined;
  }

  #commit(group: readonly QueuedWrite[]): boolean[] {
    let written: boolean[] = [];
    inTransaction(this.#database, () => {
      written = group.map((write) => this.#apply(write));
    });
    return written;
  }

  #apply({ key, value, expected }: QueuedWrite): boolean {
    const { create, replace, remove, recordChange, forgetChanges } = this.#statements;
    const result =
      value === undefined
        ? remove.run(key, expected)
        : expected === 0
          ? create.run(key, value)
          : replace.run(value, key, expected);
    if (result.changes === 0) return false;
    const sequence = Number(recordChange.run(key).lastInsertRowid);
    if (sequence % 256 === 0) forgetChanges.run(sequence - changesKept);
    return true;
  }

  #watchOtherWriters(): Cancel {
    const { dataVersion, lastChange, changesAfter } = this.#statements;
    let seenVersion: unknown;
    let seenSequence = 0;
    const look = () => {
      // Changes only when another connection commits, and is read from shared memory.
      const version = Object.values(dataVersion.get() ?? {})[0];
      if (version === seenVersion) return;
      if (seenVersion === undefined) seenSequence = (lastChange.get() as { sequence: number }).sequence;
      const rows = changesAfter.all(seenSequence) as unknown as { sequence: number; key: string }[];
      seenVersion = version;
      seenSequence = rows.at(-1)?.sequence ?? seenSequence;
      this.#hints.changed(rows.map(({ key }) => key));
    };
    const tryLook = () => {
      try {
        look();
      } catch {
        // Hints may be missed; whatever is wrong with the file, the next read or write says so.
      }
    };
    tryLook();
    const told = this.#signal.watch(tryLook);
    const stopLooking = every(this.#world.timers, told ? watchIntervalToldMs : watchIntervalMs, tryLook);
    return () => {
      told?.();
      stopLooking();
    };
  }

  #checkOpen(): void {
    if (this.#closed) fail("failed_precondition", `the store ${this.#path} is closed: open it again`);
  }
}

/** Rows come without a prototype, which surprises whoever compares them. */
function toItem(row: object): StoredItem {
  return { ...(row as StoredItem) };
}

function prepareStatements(database: DatabaseSync) {
  const list = (operator: string) =>
    database.prepare(`SELECT key, value, version FROM items WHERE key ${operator} ? AND key < ? ORDER BY key LIMIT ?`);
  return {
    get: database.prepare("SELECT key, value, version FROM items WHERE key = ?"),
    create: database.prepare("INSERT INTO items VALUES (?, ?, 1) ON CONFLICT DO NOTHING"),
    replace: database.prepare("UPDATE items SET value = ?, version = version + 1 WHERE key = ? AND version = ?"),
    remove: database.prepare("DELETE FROM items WHERE key = ? AND version = ?"),
    listFrom: list(">="),
    listAfter: list(">"),
    recordChange: database.prepare("INSERT INTO changes (key) VALUES (?)"),
    forgetChanges: database.prepare("DELETE FROM changes WHERE sequence <= ?"),
    dataVersion: database.prepare("PRAGMA data_version"),
    lastChange: database.prepare("SELECT coalesce(max(sequence), 0) AS sequence FROM changes"),
    changesAfter: database.prepare("SELECT sequence, key FROM changes WHERE sequence > ? ORDER BY sequence"),
  };
}
