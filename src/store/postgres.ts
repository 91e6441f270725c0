// State in one table of a PostgreSQL database. Each call is a single statement, which is atomic by itself; hints
// travel by LISTEN and NOTIFY, apart from the writes, since a NOTIFY inside them would make all commits queue up.

import type pg from "pg";
import { DcnrError, fail, messageOf } from "../core/errors.ts";
import { loadOptional } from "../core/optional.ts";
import { type Cancel, sleep, type World } from "../core/world.ts";
import { HintSender, Hints } from "./hints.ts";
import { checkKey, checkValue, checkVersion, compareKeys, keyEnd, listRange, PageBuilder } from "./items.ts";
import type { ListPage, StateStore, StoredItem } from "./state-store.ts";

const driver = await loadOptional<typeof pg>("pg", "postgres", "a PostgreSQL store");

type StoreWorld = Pick<World, "clock" | "timers" | "chance">;

export interface PostgresStoreOptions {
  /** postgres://user:password@host:port/database */
  readonly url: string;
  readonly world: StoreWorld;
}

const table = "dcnr_items";
const channel = "dcnr_items";
const connectionsMax = 8;
const connectTimeoutMs = 5_000;
/** A reply that takes longer counts as lost. */
const queryTimeoutMs = 10_000;
const hintDelayMs = 10;
const relistenDelayMsMax = 1_000;
/** Any number will do, as long as all processes use the same while they create the table. */
const schemaLock = 0x44434e52;

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

async function prepareTable(pool: pg.Pool, where: string): Promise<void> {
  const encoding = await pool.query<{ server_encoding: string }>("SHOW server_encoding");
  if (encoding.rows[0]?.server_encoding !== "UTF8")
    fail("failed_precondition", `the database ${where} is not encoded in UTF8: create one with ENCODING 'UTF8'`);
  const known = await pool.query<{ name: string | null }>(`SELECT to_regclass('${table}') AS name`);
  // A user that may not create tables can still use one that is there.
  if (known.rows[0]?.name == null) await createTable(pool);
  const found = await pool.query<{ name: string; type: string; collation: string }>(`
    SELECT a.attname AS name, format_type(a.atttypid, NULL) AS type, coalesce(c.collname, '') AS collation
    FROM pg_attribute a LEFT JOIN pg_collation c ON c.oid = a.attcollation
    WHERE a.attrelid = '${table}'::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum`);
  const columns = found.rows.map(
    ({ name, type, collation }) => `${name} ${type}${name === "key" ? ` ${collation}` : ""}`,
  );
  const expected = "key text C, value text, version bigint";
  if (columns.join(", ") !== expected)
    fail(
      "failed_precondition",
      `the table ${table} in ${where} has the columns (${columns.join(", ")}), not (${expected}): name another database`,
    );
}

/** Statements sent together are one transaction, with which the lock ends. The collation makes order that of bytes. */
async function createTable(pool: pg.Pool): Promise<void> {
  await pool.query(`
    SELECT pg_advisory_xact_lock(${schemaLock});
    CREATE TABLE IF NOT EXISTS ${table} (key text COLLATE "C" PRIMARY KEY, value text NOT NULL, version bigint NOT NULL)`);
}

class PostgresStore implements StateStore {
  readonly #pool: pg.Pool;
  readonly #settings: pg.ClientConfig;
  readonly #where: string;
  readonly #world: StoreWorld;
  readonly #hints = new Hints();
  readonly #sender: HintSender;
  readonly #listening = new AbortController();
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
  }

  async get(key: string): Promise<StoredItem | undefined> {
    checkKey(key);
    const { rows } = await this.#query("get", `SELECT key, value, version FROM ${table} WHERE key = $1`, [key]);
    return rows[0] && toItem(rows[0]);
  }

  async put(key: string, value: string, expected: number): Promise<number | undefined> {
    checkKey(key);
    checkValue(key, value);
    checkVersion(key, expected);
    const { rowCount } =
      expected === 0
        ? await this.#query("create", `INSERT INTO ${table} VALUES ($1, $2, 1) ON CONFLICT DO NOTHING`, [key, value])
        : await this.#query(
            "replace",
            `UPDATE ${table} SET value = $2, version = version + 1 WHERE key = $1 AND version = $3`,
            [key, value, expected],
          );
    if (rowCount !== 1) return undefined;
    this.#changed(key);
    return expected + 1;
  }

  async delete(key: string, expected: number): Promise<boolean> {
    checkKey(key);
    checkVersion(key, expected);
    const text = `DELETE FROM ${table} WHERE key = $1 AND version = $2`;
    const { rowCount } = await this.#query("delete", text, [key, expected]);
    if (rowCount !== 1) return false;
    this.#changed(key);
    return true;
  }

  async list(prefix: string, options?: { after?: string; limit?: number }): Promise<ListPage> {
    const { after, limit } = listRange(prefix, options);
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

  #changed(key: string): void {
    this.#hints.changed([key]);
    this.#sender.add(key);
  }

  /** Prepared once per connection under its name. */
  async #query(name: string, text: string, values: unknown[]): Promise<pg.QueryResult<ItemRow>> {
    if (this.#closed) fail("failed_precondition", `the store ${this.#where} is closed: open it again`);
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
