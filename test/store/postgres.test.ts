// The PostgreSQL store against a real server, which the test starts and stops.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import pg from "pg";
import { hasCode } from "../../src/core/errors.ts";
import { storeConformance, conformanceWorld as world } from "../../src/store/records/conformance.ts";
import { openPostgresStore } from "../../src/store/records/postgres.ts";
import { createItem, updateItem } from "../../src/store/records/update.ts";
import { type PostgresServer, startPostgres } from "./servers/postgres.ts";

let server: PostgresServer;
before(async () => {
  server = await startPostgres();
});
after(() => server?.stop());

storeConformance("postgres", {
  open: () => openPostgresStore({ url: server.url, world }),
  address: () => server.url,
});

describe("a PostgreSQL store", () => {
  const withDatabase = async (name: string, statements: string): Promise<string> => {
    const run = async (url: string, text: string) => {
      const client = new pg.Client(url);
      await client.connect();
      await client.query(text);
      await client.end();
    };
    await run(server.url, `CREATE DATABASE ${name}`);
    const url = server.url.replace(/\/postgres$/, `/${name}`);
    await run(url, statements);
    return url;
  };

  it("is created once by several processes that come first together", async () => {
    const url = await withDatabase("together", "SELECT 1");
    const stores = await Promise.all([1, 2, 3, 4].map(() => openPostgresStore({ url, world })));
    for (const store of stores) await store.close();
  });

  it("writes what is asked at once in few transactions, and handles never wait for each other in a circle", async () => {
    const url = await withDatabase("groups", "SELECT 1");
    const stores = await Promise.all([1, 2, 3].map(() => openPostgresStore({ url, world })));
    const keys = Array.from({ length: 60 }, (_, index) => `key${index}`);
    const rounds = 10;
    // Everybody counts on every key, each in an order of its own.
    const count = (store: (typeof stores)[number], from: number) =>
      Promise.all(
        keys.map((_, index) =>
          updateItem<{ count: number }>(
            store,
            keys[(from + index * 7) % keys.length] as string,
            (now) => ({ count: (now?.count ?? 0) + 1 }),
            world,
            { timeoutMs: 60_000 },
          ),
        ),
      );
    for (let round = 0; round < rounds; round++) await Promise.all(stores.map((store, at) => count(store, at * 17)));
    const [first] = stores as [(typeof stores)[number]];
    const found = await Promise.all(keys.map(async (key) => JSON.parse((await first.get(key))?.value ?? "{}").count));
    for (const store of stores) await store.close();
    assert.deepEqual(found, Array(keys.length).fill(rounds * stores.length));
    const client = new pg.Client(url);
    await client.connect();
    const { rows } = await client.query(
      "SELECT deadlocks::int, xact_commit::int AS committed FROM pg_stat_database WHERE datname = current_database()",
    );
    await client.end();
    assert.equal(rows[0].deadlocks, 0);
    assert.ok(rows[0].committed < keys.length * rounds * stores.length, `${rows[0].committed} transactions`);
  });

  it("refuses a table of the same name with other columns", async () => {
    const url = await withDatabase("foreign_table", "CREATE TABLE dcnr_items (id int, note text)");
    await assert.rejects(
      openPostgresStore({ url, world }),
      /has the columns \(id integer, note text\), not \(key text C/,
    );
  });

  it("names what is wrong with an address, and never its password", async () => {
    const attempt = async (url: string) => {
      const thrown: Error = await openPostgresStore({ url, world }).then(
        () => assert.fail(),
        (error) => error,
      );
      assert.ok(!thrown.message.includes("secret") && !thrown.message.includes("wrong"), thrown.message);
      return thrown;
    };
    assert.ok(hasCode(await attempt(server.url.replace("secret", "wrong")), "unauthenticated"));
    assert.match((await attempt(server.url.replace(/postgres$/, "nowhere"))).message, /createdb/);
    const unreachable = await attempt("postgres://dcnr:secret@127.0.0.1:1/postgres");
    assert.ok(hasCode(unreachable, "unavailable"));
    assert.match(unreachable.message, /127\.0\.0\.1:1.*check that it runs/);
  });

  it("says so while the server is down, loses nothing, and goes on when it is back, hints included", async () => {
    const store = await openPostgresStore({ url: server.url, world });
    const other = await openPostgresStore({ url: server.url, world });
    await createItem(store, "outage/kept", { count: 1 }, world);
    let hinted = () => {};
    const hint = new Promise<void>((resolve) => (hinted = resolve));
    store.watch("outage/after", hinted);
    await server.crash();
    await assert.rejects(store.get("outage/kept"), (thrown) => hasCode(thrown, "unavailable"));
    const count = (record: { count: number } | undefined) => ({ count: (record?.count ?? 0) + 1 });
    const updating = updateItem(store, "outage/kept", count, world, { timeoutMs: 60_000 });
    await server.restart();
    assert.deepEqual((await updating).record, { count: 2 });
    let told = false;
    void hint.then(() => (told = true));
    for (let version = 0; !told; version++) {
      await other.put("outage/after", "", version);
      await Promise.race([hint, new Promise((resolve) => setTimeout(resolve, 100))]);
    }
    await store.close();
    await other.close();
  });
});
