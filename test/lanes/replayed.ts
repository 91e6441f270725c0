// What the records of an elastic session of real processes lead to: read from its store, and trained again in one place, each lane and round
// in the class that its plan names. Needs a machine that computes in all of them.

import { join } from "node:path";
import { trainInOnePlace } from "../../simulation/golden/train.ts";
import type { Sha256 } from "../../src/core/ids.ts";
import { parseManifest } from "../../src/data/manifest.ts";
import type { EngineKind, Executor } from "../../src/engine/engine.ts";
import { openExecutor } from "../../src/engine/pool/threads.ts";
import { roundCount, type ToldRound } from "../../src/network/rounds.ts";
import type { ClosingRecord, RoundRecord } from "../../src/orchestrator/records/rounds.ts";
import type { SessionRecord } from "../../src/orchestrator/records/sessions.ts";
import { key } from "../../src/orchestrator/records/store-keys.ts";
import { openBlobStore, openStateStore } from "../../src/store/open.ts";
import { readItem } from "../../src/store/records/update.ts";
import { realWorld } from "../../src/system/world.ts";

export interface Replayed {
  readonly rounds: readonly ToldRound[];
  /** The class before the first round. */
  readonly common: string;
  /** After each step, from the first on; only those count after which lanes have the same weights. */
  readonly roots: readonly string[];
}

/** `directory`: an orchestrator's, with the store and the blobs that are usual. */
export async function replayed(directory: string, id: string, engines: readonly EngineKind[]): Promise<Replayed> {
  const world = realWorld();
  const store = await openStateStore(`sqlite:${join(directory, "state.db")}`, { world });
  const blobs = await openBlobStore(`dir:${join(directory, "blobs")}`, { world, baseUrl: () => "" });
  const executors = new Map<string, Executor>();
  try {
    const read = async <T extends object>(name: string) => (await readItem<T>(store, name))?.record;
    const session = await read<SessionRecord>(key.session(id));
    if (session === undefined) throw new Error(`there is no session ${id}`);
    const { identity, numericsClass: common } = session;
    const rounds: ToldRound[] = [];
    for (let round = 0; round < roundCount(identity); round++) {
      const plan = await read<RoundRecord>(key.round(id, round));
      const closing = await read<ClosingRecord>(key.closing(id, round));
      if (!plan || !closing) throw new Error(`round ${round} of ${id} has no ${plan ? "closing" : "plan"}`);
      rounds.push({ round, lanes: plan.lanes, counted: closing.counted });
    }
    for (const kind of engines) {
      const executor = await openExecutor({ kind, workers: 1 });
      executors.set(await executor.numericsClass(), executor);
    }
    const executorOf = (name: string) => {
      const executor = executors.get(name);
      return executor ?? fail(`a class in which nothing computes here: ${name}`);
    };
    const text = (content: Uint8Array) => new TextDecoder().decode(content);
    const { lanes = 1, sync, steps, batch, microbatches, clipNorm, seed, learningRate } = identity;
    const scenario = {
      ...{
        name: id,
        definition: text(await blobs.definitions.get(identity.definition)),
        lanes,
        steps,
        batch,
        microbatches,
      },
      ...{ clipNorm, validateEvery: 0, data: { kind: "tokens", tokens: 0, vocabulary: 0 } as const },
      ...(sync && { sync }),
    };
    const { roots } = await trainInOnePlace(scenario, executorOf(common), {
      ...{ rounds, settings: { seed, learningRate } },
      executorOf: (name) => (name === "" ? undefined : executorOf(name)),
      stored: {
        manifest: parseManifest(text(await blobs.datasets.get(identity.dataset))),
        fetchBlob: (hash: Sha256) => blobs.datasets.get(hash),
      },
    });
    return { rounds, common, roots };
  } finally {
    for (const executor of executors.values()) await executor.close();
    await store.close();
    await blobs.close();
  }
}

function fail(message: string): never {
  throw new Error(message);
}
