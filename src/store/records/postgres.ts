// State in one table of a PostgreSQL database. Calls that come together are a single statement, which is atomic by itself and
// costs one round trip and one flush to disk; hints travel by LISTEN and NOTIFY, apart from the writes, since a NOTIFY inside
// them would make all commits queue up.

import type pg from "pg";
import { DcnrError, fail, messageOf } from "../../core/errors.ts";
import { loadOptional } from "../../core/optional.ts";
import { type Cancel, sleep, type World } from "../../core/world.ts";
import { type Grouped, Grouping } from "./grouping.ts";
import { HintSender, Hints } from "./hints.ts";
import {
  checkKey,
  checkValue,
  checkVersion,
  compareKeys,
  keyEnd,
  listRange,
  PageBuilder,
  pageBytesMax,
} from "./items.ts";
import { prepareTable, readStatement, table, writeStatement } from "./postgres-table.ts";
import type { ListPage, StateStore, StoredItem } from "./state-store.ts";

const driver = await loadOptional<typeof pg>("pg", "postgres", "a PostgreSQL store");

type StoreWorld = Pick<World, "clock" | "timers" | "chance">;

export interface PostgresStoreOptions {
  /** postgres://user:password@host:port/database */
  readonly url: string;
  readonly world: StoreWorld;
}

const channel = "dcnr_items";
const connectionsMax = 8;
const connectTimeoutMs = 5_000;
/** A reply that takes longer counts as lost. */
const queryTimeoutMs = 10_000;
const hintDelayMs = 10;
const relistenDelayMsMax = 1_000;
const groupSizeMax = 256;
/** Reads and writes wait in two lines, so at most so many connections of each kind are in use. */
const groupsAtOnce = 2;
/** What reads bring is not known beforehand: so many of the largest values still fit into memory. */
const readsMax = 64;

interface Read extends Grouped {
  readonly key: string;
}

interface Write extends Grouped {
  readonly key: string;
  /** Null deletes. */
  readonly value: string | null;
  readonly expected: number;
}

export async function openPostgresStore({ url, world }: PostgresStoreOptions): Promise<StateStore> {
  const settings: pg.PoolConfig = {
    connectionString: url,
    connectionTimeoutMillis: connectTimeoutMs,
    query_timeout: queryTimeoutMs,
    keepAlive: true,
    application_name: "dcnr",
  };
  const pool = new driver.Pool({ ...settings, max: connectionsMax });
  // An idle connection that breaks is replaced at the next call; without a listener it would end the process.
  pool.on("error", () => {});
  try {
    await prepareTable(pool, withoutPassword(url));
  } catch (thrown) {
    await pool.end();
    throw postgresError(thrown, withoutPassword(url));
  }
  return new PostgresStore(pool, settings, withoutPassword(url), world);
}

class PostgresStore implements StateStore {
  readonly #pool: pg.Pool;
  readonly #settings: pg.ClientConfig;
  readonly #where: string;
  readonly #world: StoreWorld;
  readonly #hints = new Hints();
  readonly #sender: HintSender;
  readonly #listening = new AbortController();
  readonly #reads: Grouping<Read, StoredItem | undefined>;
  readonly #writes: Grouping<Write, boolean>;
  #listener: Promise<void> | undefined;
  #closed = false;

  constructor(pool: pg.Pool, settings: pg.ClientConfig, where: string, world: StoreWorld) {
    this.#pool = pool;
    this.#settings = settings;
    this.#where = where;
    this.#world = world;
    this.#sender = new HintSender(world.timers, hintDelayMs, async (keys) => {
      await pool.query(`SELECT pg_notify('${channel}', key) FROM unnest($1::text[]) AS key`, [keys]);
    });
    const limits = { atOnce: groupsAtOnce, bytesMax: pageBytesMax };
    this.#reads = new Grouping({ ...limits, sizeMax: readsMax }, (group) => this.#read(group));
    this.#writes = new Grouping({ ...limits, sizeMax: groupSizeMax }, (group) => this.#write(group));
  }

  async get(key: string): Promise<StoredItem | undefined> {
    checkKey(key);
    this.#checkOpen();
    return this.#reads.ask({ key, bytes: 0 });
  }

  async put(key: string, value: string, expected: number): Promise<number | undefined> {
    checkKey(key);
    checkValue(key, value);
    checkVersion(key, expected);
    this.#checkOpen();
    return (await this.#writes.ask({ key, value, expected, apart: key, bytes: value.length }))
      ? expected + 1
      : undefined;
  }

  async delete(key: string, expected: number): Promise<boolean> {
    checkKey(key);
    checkVersion(key, expected);
    this.#checkOpen();
    return this.#writes.ask({ key, value: null, expected, apart: key, bytes: 0 });
  }

  async list(prefix: string, options?: { after?: string; limit?: number }): Promise<ListPage> {
    const { after, limit } = listRange(prefix, options);
    this.#checkOpen();
    const resumes = after !== undefined && compareKeys(after, prefix) >= 0;
    const page = new PageBuilder(limit);
    // In portions, so that a list of large values does not come into memory at once.
    for (let start = resumes ? after : prefix, operator = resumes ? ">" : ">="; ; operator = ">") {
      const text = `SELECT key, value, version FROM ${table} WHERE key ${operator} $1 AND key < $2 ORDER BY key LIMIT $3`;
      const portion = Math.min(limit + 1, 100);
      const { rows } = await this.#query(`list${operator}`, text, [start, prefix + keyEnd, portion]);
      for (const row of rows) if (!page.add(toItem(row))) return page.page();
      if (rows.length < portion) return page.page();
      start = rows.at(-1)!.key;
    }
  }

  watch(prefix: string, onHint: (keys: readonly string[]) => void): Cancel {
    this.#listener ??= this.#listen();
    return this.#hints.watch(prefix, onHint);
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#hints.clear();
    await this.#sender.flush();
    this.#listening.abort();
    await this.#listener;
    await this.#pool.end();
  }

  async #read(group: readonly Read[]): Promise<(StoredItem | undefined)[]> {
    const { rows } = await this.#query("read", readStatement, [Array.from(new Set(group.map(({ key }) => key)))]);
    const found = new Map(rows.map((row) => [row.key, toItem(row)]));
    return group.map(({ key }) => found.get(key));
  }

  async #write(group: readonly Write[]): Promise<boolean[]> {
    const columns = [
      group.map(({ key }) => key),
      group.map(({ value }) => value),
      group.map(({ expected }) => expected),
    ];
    const { rows } = await this.#query("write", writeStatement, columns);
    const written = new Set(rows.map(({ key }) => key));
    this.#hints.changed(written);
    for (const key of written) this.#sender.add(key);
    return group.map(({ key }) => written.has(key));
  }

  #checkOpen(): void {
    if (this.#closed) fail("failed_precondition", `the store ${this.#where} is closed: open it again`);
  }

  /** Prepared once per connection under its name. */
  async #query(name: string, text: string, values: unknown[]): Promise<pg.QueryResult<ItemRow>> {
    try {
      return await this.#pool.query<ItemRow>({ name: `dcnr ${name}`, text, values });
    } catch (thrown) {
      throw postgresError(thrown, this.#where);
    }
  }

  /** Keeps one connection for notifications, and makes another whenever it breaks. */
  async #listen(): Promise<void> {
    const { signal } = this.#listening;
    for (let attempt = 0; !signal.aborted; attempt++) {
      const client = new driver.Client(this.#settings);
      const ended = new Promise<void>((resolve) => {
        client.on("end", () => resolve());
        client.on("error", () => resolve());
        signal.addEventListener("abort", () => resolve(), { once: true });
      });
      client.on("notification", ({ payload }) => payload !== undefined && this.#hints.changed([payload]));
      try {
        await client.connect();
        await client.query(`LISTEN ${channel}`);
        attempt = 0;
        await ended;
      } catch {
        // The next attempt may succeed; what cannot be reached is reported by reads and writes.
      }
      await client.end().catch(() => {});
      const delayMs = this.#world.chance.uniform() * Math.min(relistenDelayMsMax, 50 * 2 ** attempt);
      await sleep(this.#world.timers, delayMs, signal);
    }
  }
}

interface ItemRow {
  readonly key: string;
  readonly value: string;
  /** 64-bit numbers come as text. */
  readonly version: string;
}

function toItem({ key, value, version }: ItemRow): StoredItem {
  return { key, value, version: Number(version) };
}

function withoutPassword(url: string): string {
  return url.replace(/^(\w+:\/\/[^/@:]*):[^@]*@/, "$1@").replace(/\?.*$/, "");
}

/** Classes of SQLSTATE, see appendix A of the PostgreSQL manual. Without one the connection failed or was too slow. */
function postgresError(thrown: unknown, where: string): DcnrError {
  if (thrown instanceof DcnrError) return thrown;
  const state = thrown instanceof driver.DatabaseError ? (thrown.code ?? "") : "";
  const detail = messageOf(thrown) || (thrown as { code?: string }).code || "no connection";
  const explained = (code: DcnrError["code"], sentence: string) => new DcnrError(code, sentence, { cause: thrown });
  switch (state.slice(0, 2)) {
    case "53":
      return explained(
        "resource_exhausted",
        `the database ${where} is out of space or connections (${detail}): make room and go on`,
      );
    case "28":
      return explained(
        "unauthenticated",
        `the database ${where} refused the user or password (${detail}): check the address`,
      );
    case "3D":
      return explained(
        "failed_precondition",
        `there is no such database: ${where} (${detail}): create it with createdb`,
      );
    case "42":
      return explained(
        "failed_precondition",
        `the database ${where} cannot be used (${detail}): let the user create and write tables`,
      );
    case "":
    case "08":
    case "57":
      return explained(
        "unavailable",
        `the database ${where} did not answer (${detail}): check that it runs and can be reached`,
      );
    default:
      return explained("unavailable", `the database ${where} failed (${detail})`);
  }
}
