// The table of a PostgreSQL store: how it comes to be and is recognised, and the statements that read and write many items.

import type pg from "pg";
import { fail } from "../../core/errors.ts";

export const table = "dcnr_items";
/** Any number will do, as long as all processes use the same while they create the table. */
const schemaLock = 0x44434e52;

export const readStatement = `SELECT key, value, version FROM ${table} WHERE key = ANY($1::text[])`;

/**
 * Tells the keys that were written. Others may write some of the same items at the same time, so rows are locked before any
 * item is made, and both in the order of their keys: nobody waits for somebody who waits for them.
 */
export const writeStatement = `
  WITH asked AS (
    SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[]) AS asked(key, value, expected)
  ), locked AS MATERIALIZED (
    SELECT item.key FROM ${table} item JOIN asked ON item.key = asked.key AND item.version = asked.expected
    ORDER BY item.key FOR UPDATE OF item
  ), replaced AS (
    UPDATE ${table} item SET value = asked.value, version = item.version + 1 FROM asked
    WHERE item.key = asked.key AND item.version = asked.expected AND asked.value IS NOT NULL
      AND item.key IN (SELECT key FROM locked)
    RETURNING item.key
  ), deleted AS (
    DELETE FROM ${table} item USING asked
    WHERE item.key = asked.key AND item.version = asked.expected AND asked.value IS NULL
      AND item.key IN (SELECT key FROM locked)
    RETURNING item.key
  ), created AS (
    INSERT INTO ${table} SELECT key, value, 1 FROM asked
    WHERE expected = 0 AND value IS NOT NULL AND (SELECT count(*) FROM locked) >= 0
    ORDER BY key ON CONFLICT DO NOTHING
    RETURNING key
  )
  SELECT key FROM replaced UNION ALL SELECT key FROM deleted UNION ALL SELECT key FROM created`;

export async function prepareTable(pool: pg.Pool, where: string): Promise<void> {
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
