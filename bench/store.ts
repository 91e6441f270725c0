// Commits per second of each store: read, compare and set of records of half a kilobyte, by one client that waits for
// each and by 16 at once on keys of their own, and how fast a hint reaches another handle.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openMemoryStore } from "../src/store/memory.ts";
import { openStateStore } from "../src/store/open.ts";
import type { StateStore } from "../src/store/records/state-store.ts";
import { updateItem } from "../src/store/records/update.ts";
import { realWorld } from "../src/system/world.ts";
import { dynamoIsThere, startDynamo } from "../test/store/servers/dynamodb.ts";
import { startPostgres } from "../test/store/servers/postgres.ts";

export interface StoreBenchResult {
  readonly store: string;
  readonly commitsPerSecond: number;
  readonly commitsPerSecondOf16: number;
  readonly readsPerSecond: number;
  readonly hintMs: number;
}

export interface StoreBenchOptions {
  readonly secondsEach?: number;
}

interface Subject {
  readonly name: string;
  open(): Promise<StateStore>;
  stop(): Promise<void>;
}

const world = realWorld();
const padding = "x".repeat(450);

export async function runStoreBench({ secondsEach = 2 }: StoreBenchOptions = {}): Promise<StoreBenchResult[]> {
  const results: StoreBenchResult[] = [];
  for (const start of [memory, sqlite, postgres, ...(dynamoIsThere() ? [dynamo] : [])]) {
    const subject = await start();
    try {
      results.push(await measure(subject, secondsEach * 1000));
    } finally {
      await subject.stop();
    }
  }
  return results;
}

async function memory(): Promise<Subject> {
  const store = openMemoryStore();
  return { name: "memory", open: async () => store, stop: async () => {} };
}

async function sqlite(): Promise<Subject> {
  const folder = mkdtempSync(join(tmpdir(), "dcnr-bench-"));
  return {
    name: "sqlite",
    open: () => openStateStore(`sqlite:${join(folder, "store.db")}`, { world }),
    stop: async () => rmSync(folder, { recursive: true }),
  };
}

async function postgres(): Promise<Subject> {
  const server = await startPostgres();
  return { name: "postgres", open: () => openStateStore(server.url, { world }), stop: () => server.stop() };
}

async function dynamo(): Promise<Subject> {
  const server = await startDynamo();
  const address = `dynamodb:bench@${server.endpoint}`;
  return { name: "dynamodb local", open: () => openStateStore(address, { world }), stop: () => server.stop() };
}

async function measure({ name, open }: Subject, durationMs: number): Promise<StoreBenchResult> {
  const store = await open();
  const other = await open();
  try {
    const commit = (client: number) =>
      updateItem<{ count: number; padding: string }>(
        store,
        `bench/${client}`,
        (record) => ({ count: (record?.count ?? 0) + 1, padding }),
        world,
      );
    await perSecond(1, durationMs / 10, commit);
    return {
      store: name,
      commitsPerSecond: await perSecond(1, durationMs, commit),
      commitsPerSecondOf16: await perSecond(16, durationMs, commit),
      readsPerSecond: await perSecond(16, durationMs, (client) => store.get(`bench/${client}`)),
      hintMs: await medianHintMs(store, other),
    };
  } finally {
    await store.close();
    await other.close();
  }
}

async function perSecond(
  clients: number,
  durationMs: number,
  work: (client: number) => Promise<unknown>,
): Promise<number> {
  const beganMs = performance.now();
  let done = 0;
  const run = async (client: number) => {
    while (performance.now() - beganMs < durationMs) {
      await work(client);
      done++;
    }
  };
  await Promise.all(Array.from({ length: clients }, (_, client) => run(client)));
  return Math.round((done / (performance.now() - beganMs)) * 1000);
}

async function medianHintMs(store: StateStore, other: StateStore): Promise<number> {
  const delays: number[] = [];
  let hinted = () => {};
  const cancel = other.watch("hint/", () => hinted());
  for (let version = 0; version < 12; version++) {
    const hint = new Promise<void>((resolve) => (hinted = resolve));
    await store.put("hint/key", "", version);
    const writtenMs = performance.now();
    // The first hints may be missed while a watch begins.
    await Promise.race([hint, new Promise((resolve) => setTimeout(resolve, 1000))]);
    delays.push(performance.now() - writtenMs);
  }
  cancel();
  return Math.round(delays.sort((a, b) => a - b)[delays.length >> 1]!);
}

if (import.meta.main) console.table(await runStoreBench());
