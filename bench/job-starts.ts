// Starts a second through a real store, and what each costs it: the production's claims in its order of writes, with all that
// is asked at once for one record in one write.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import type { JobId } from "../src/core/ids.ts";
import { claimed, type QuotaBook, queueRulesDefault } from "../src/scheduler/quota.ts";
import { granted, type Room } from "../src/scheduler/room.ts";
import { openStateStore } from "../src/store/open.ts";
import type { StateStore } from "../src/store/records/state-store.ts";
import { updateItem } from "../src/store/records/update.ts";
import { realWorld } from "../src/system/world.ts";
import { startPostgres } from "../test/store/servers/postgres.ts";

const world = realWorld({ logFormat: "none" });

interface JobItem {
  readonly status: string;
  readonly epoch: number;
  readonly spec: string;
}

/** The production's claims and its order of writes, with all that is asked at once for one record in one write. */
async function commit(store: StateStore): Promise<{ perSecond: number; writes: number }> {
  const perPass = 64;
  const passes = 12;
  const pnodes = 16;
  let writes = 0;
  const update = <T extends object>(key: string, change: (current: T | undefined) => T | undefined) => {
    writes++;
    return updateItem<T>(store, key, change, world, { timeoutMs: 30_000 });
  };
  const queues = { q: { ...queueRulesDefault, name: "q", nominal: { jobs: 1e6 } } };
  await update<QuotaBook>("cohort/bench", () => ({ queues, claims: {} }));
  const all = Array.from({ length: passes * perPass }, (_, index) => `j${index}`);
  await Promise.all(
    all.map((id) => update<JobItem>(`job/${id}`, () => ({ status: "pending", epoch: 0, spec: "x".repeat(500) }))),
  );
  const beganMs = performance.now();
  for (let pass = 0; pass < passes; pass++) {
    const ids = all.slice(pass * perPass, (pass + 1) * perPass);
    await Promise.all(
      Array.from({ length: pnodes }, (_, pnode) => {
        const own = ids.filter((_id, index) => index % pnodes === pnode);
        return update<Room>(`room/p${pnode}`, (room) => {
          const claim = (id: string) => ({
            session: id as never,
            vnode: "v" as never,
            epoch: 1,
            memoryBytes: 1,
            gpus: 0,
          });
          const groups = own.map((id) => ({ workload: id as never, claims: { [id]: claim(id) } }));
          return granted(room, { life: 1, lent: { memoryBytes: 1e9, gpus: 0 } }, groups).room;
        });
      }),
    );
    const amounts = { cores: 1, gpus: 0, memoryBytes: 1, jobs: 1 };
    const wanted = new Map(ids.map((id) => [id as JobId as string, { queue: "q", owner: "anna", epoch: 1, amounts }]));
    await update<QuotaBook>("cohort/bench", (book) => (book ? claimed(book, wanted).book : undefined));
    await Promise.all(
      ids.map(async (id) => {
        await update<JobItem>(`job/${id}`, (job) =>
          job?.status === "pending" ? { ...job, status: "running", epoch: 1 } : undefined,
        );
        await update<object>(`vnode/${id}/v`, () => ({ epoch: 1, members: [{ pnode: "p", claim: id }] }));
        await update<object>(`session/${id}`, () => ({ status: "running" }));
      }),
    );
  }
  return { perSecond: Math.round(all.length / ((performance.now() - beganMs) / 1000)), writes };
}

export async function startsThroughSqlite(): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), "dcnr-bench-"));
  const store = await openStateStore(`sqlite:${join(folder, "store.db")}`, { world });
  try {
    return `${(await commit(store)).perSecond}/s`;
  } finally {
    await store.close();
    rmSync(folder, { recursive: true });
  }
}

export async function startsThroughPostgres(): Promise<string> {
  const server = await startPostgres();
  try {
    const store = await openStateStore(server.url, { world });
    const { perSecond, writes } = await commit(store).finally(() => store.close());
    // The server's own count, complete once all connections of the store are closed.
    const counted = await counts(server.url);
    return `${perSecond}/s (${writes} writes: ${counted.transactions} transactions, ${counted.flushes} flushes to disk)`;
  } finally {
    await server.stop();
  }
}

async function counts(url: string): Promise<{ transactions: number; flushes: number }> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    const { rows } = await client.query<{ transactions: number; flushes: number }>(
      `SELECT (SELECT sum(xact_commit)::int FROM pg_stat_database WHERE datname = current_database()) AS transactions,
              (SELECT sum(fsyncs)::int FROM pg_stat_io WHERE object = 'wal') AS flushes`,
    );
    return rows[0] as { transactions: number; flushes: number };
  } finally {
    await client.end();
  }
}
