// States in the blob store: the manifest by which one is known, and whether all of its parts are there.

import { hasCode } from "../../core/errors.ts";
import type { Sha256 } from "../../core/ids.ts";
import { partLength, readStateManifest, type StateManifest } from "../../states/manifest.ts";
import type { BlobSpace } from "../../store/blobs/blob-store.ts";
import type { StoredState } from "../records/vnodes.ts";

/** Questions to the blob store at a time. */
const asksAtOnce = 8;

export async function manifestOf(states: BlobSpace, state: Sha256): Promise<StateManifest> {
  return readStateManifest(await states.get(state), `the state ${state}`);
}

/** What the blob store holds under this name; `refuse` hears of a state of which anything is not there whole. */
export async function storedState(
  states: BlobSpace,
  state: Sha256,
  refuse: (reason: string) => never,
): Promise<StoredState & { readonly parts: readonly Sha256[] }> {
  const manifest = await manifestOf(states, state).catch((thrown: unknown) => {
    if (isLost(thrown)) refuse(`the state ${state} is not in the blob store, or damaged there`);
    throw thrown;
  });
  const lengths = new Map(manifest.parts.map((hash, index) => [hash, partLength(manifest, index)]));
  await eachOf([...lengths], async ([hash, length]) => {
    const stored = await states.size(hash);
    if (stored !== length)
      refuse(
        `part ${hash} of the state ${state} ${stored === undefined ? "is not in the blob store" : `has ${stored} bytes there, not ${length}`}`,
      );
  });
  return { hash: state, bytes: manifest.bytes, parts: manifest.parts };
}

/** The blobs of a state that are missing or do not hash to their names; empty if it is whole. */
export async function damagedBlobs(states: BlobSpace, state: Sha256, stopped: () => boolean): Promise<Sha256[]> {
  let manifest: StateManifest;
  try {
    manifest = await manifestOf(states, state);
  } catch (thrown) {
    if (isLost(thrown)) return [state];
    throw thrown;
  }
  const damaged: Sha256[] = [];
  for (const part of new Set(manifest.parts)) {
    try {
      for await (const _ of states.stream(part)) if (stopped()) return [];
    } catch (thrown) {
      if (!isLost(thrown)) throw thrown;
      damaged.push(part);
    }
  }
  return damaged;
}

/** The blob is missing or damaged, not only out of reach. */
export function isLost(thrown: unknown): boolean {
  return hasCode(thrown, "not_found") || hasCode(thrown, "data_loss");
}

async function eachOf<Item>(items: readonly Item[], task: (item: Item) => Promise<void>): Promise<void> {
  const rest = items.values();
  const worker = async () => {
    for (const item of rest) await task(item);
  };
  await Promise.all(Array.from({ length: Math.min(asksAtOnce, items.length) }, worker));
}
