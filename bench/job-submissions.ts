// Submissions a second through the API: a real orchestrator on SQLite, over gRPC, with a network and data that are there.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { storeData } from "../simulation/maintainer.ts";
import { type Scenario, scenarios } from "../simulation/scenarios.ts";
import { Client } from "../src/client/client.ts";
import { manifestText } from "../src/data/manifest.ts";
import { startOrchestrator } from "../src/orchestrator/orchestrator.ts";
import { openGrpcNetwork } from "../src/protocol/grpc.ts";
import { openMemoryBlobs } from "../src/store/memory.ts";
import { openStateStore } from "../src/store/open.ts";
import { backgroundTimers } from "../src/system/timers.ts";
import { realWorld } from "../src/system/world.ts";

const callsAtOnce = 16;

export interface Submissions {
  /** One after another. */
  readonly single: number;
  /** Fifty in each call. */
  readonly batch: number;
  /** Single ones, several callers at the same time. */
  readonly together: number;
}

export async function submissionsPerSecond(count: number): Promise<Submissions> {
  const world = realWorld({ logFormat: "none" });
  const folder = mkdtempSync(join(tmpdir(), "dcnr-bench-"));
  const store = await openStateStore(`sqlite:${join(folder, "store.db")}`, { world });
  const network = openGrpcNetwork({ timers: backgroundTimers });
  const blobs = openMemoryBlobs();
  const orchestrator = await startOrchestrator({ listen: "127.0.0.1:0" }, { world, network, store, blobs });
  const client = new Client(orchestrator.address, { fetch });
  try {
    const { data, definition } = scenarios[0] as Scenario;
    await client.networks.create(definition);
    await client.datasets.create("data", manifestText(await storeData(data, { inner: blobs })));
    const settings = { network: "chain", dataset: "data", split: "all", steps: 20, batch: 4, numerics: "reference" };
    const job = (seed: number) => ({ kind: "train", key: `k${seed}`, spec: { ...settings, seed } });
    await client.jobs.submit([job(0)]);
    const perSecond = async (submit: () => Promise<void>) => {
      const beganMs = performance.now();
      await submit();
      return Math.round(count / ((performance.now() - beganMs) / 1000));
    };
    const single = await perSecond(async () => {
      for (let seed = 1; seed <= count; seed++) await client.jobs.submit([job(seed)]);
    });
    const batch = await perSecond(async () => {
      for (let call = 0; call < count / 50; call++)
        await client.jobs.submit(Array.from({ length: 50 }, (_, index) => job(10_000 + call * 50 + index)));
    });
    let next = 20_000;
    const together = await perSecond(async () => {
      const caller = async () => {
        while (next < 20_000 + count) await client.jobs.submit([job(next++)]);
      };
      await Promise.all(Array.from({ length: callsAtOnce }, caller));
    });
    return { single, batch, together };
  } finally {
    await client.close();
    await orchestrator.stop();
    await network.close();
    await store.close();
    rmSync(folder, { recursive: true });
  }
}
