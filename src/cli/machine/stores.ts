// The store and the blobs of a network, read by hand: for audits that need none of its processes.

import { join } from "node:path";
import type { Sha256 } from "../../core/ids.ts";
import { readStateManifest } from "../../states/manifest.ts";
import { StateReader } from "../../states/reader.ts";
import type { BlobSpace, BlobStore } from "../../store/blobs/blob-store.ts";
import { openBlobStore, openStateStore } from "../../store/open.ts";
import type { StateStore } from "../../store/records/state-store.ts";
import { realWorld } from "../../system/world.ts";
import type { CommandContext } from "../command.ts";
import { dataDirectory } from "./directories.ts";

export const storeOptions = {
  dir: { type: "string", value: "DIR", summary: "where the orchestrator keeps its data" },
  store: { type: "string", value: "STORE", summary: "the network's store (default: in DIR)" },
  blobs: { type: "string", value: "BLOBS", summary: "the network's blobs (default: in DIR)" },
} as const;

export async function withStores<T>(
  flags: CommandContext["flags"],
  work: (store: StateStore, blobs: BlobStore) => Promise<T>,
): Promise<T> {
  const directory = dataDirectory(flags.optionalText("dir"), process.env);
  const world = realWorld();
  const store = await openStateStore(flags.optionalText("store") ?? `sqlite:${join(directory, "state.db")}`, { world });
  const blobs = await openBlobStore(flags.optionalText("blobs") ?? `dir:${join(directory, "blobs")}`, {
    ...{ world, baseUrl: () => "" },
  });
  try {
    return await work(store, blobs);
  } finally {
    await blobs.close();
    await store.close();
  }
}

export async function readerOf(states: BlobSpace, state: Sha256): Promise<StateReader> {
  const manifest = readStateManifest(await states.get(state), `the state ${state}`);
  return new StateReader({
    manifest,
    what: `the state ${state}`,
    clock: realWorld().clock,
    fetchPart: async (hash, into) => into.set(await states.get(hash)),
  });
}
