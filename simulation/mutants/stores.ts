// Stores and transfers that break what is promised of them.

import { hasCode } from "../../src/core/errors.ts";
import type { BlobTransfer } from "../../src/pnode/options.ts";
import type { BlobSpace, BlobStore } from "../../src/store/blobs/blob-store.ts";
import type { StateStore } from "../../src/store/records/state-store.ts";
import { rewriting } from "./mutant.ts";

/** Writes again, over whatever stands there now, when it has not heard of its first try. */
export function blindRetries(view: StateStore): StateStore {
  const inner = rewriting(view, "nothing", (record: object) => record);
  return {
    ...inner,
    put: async (key, value, expected) => {
      try {
        return await view.put(key, value, expected);
      } catch (error) {
        if (!hasCode(error, "unavailable")) throw error;
        const current = await view.get(key);
        return view.put(key, value, current?.version ?? 0);
      }
    },
  };
}

/** Says "stored" and loses every third blob of a state. */
export function losingBlobs(view: BlobStore): BlobStore {
  let count = 0;
  const lost = new Map<string, number>();
  const { states } = view;
  return {
    ...view,
    states: spaceWith(states, {
      put: async (hash, content, bytes) => {
        count += 1;
        if (count % 3 !== 0) return states.put(hash, content, bytes);
        lost.set(hash, bytes);
      },
      size: async (hash) => lost.get(hash) ?? states.size(hash),
    }),
  };
}

/** Spaces are objects of classes, so spreading them would lose their methods. */
function spaceWith(space: BlobSpace, changes: Partial<BlobSpace>): BlobSpace {
  return {
    put: (hash, content, bytes) => space.put(hash, content, bytes),
    get: (hash, range) => space.get(hash, range),
    stream: (hash, range) => space.stream(hash, range),
    size: (hash) => space.size(hash),
    delete: (hash) => space.delete(hash),
    list: () => space.list(),
    grant: (action, hash, bytes, lifetimeMs) => space.grant(action, hash, bytes, lifetimeMs),
    ...changes,
  };
}

/** Says "uploaded" and sends nothing. */
export function uploadsNothing(inner: BlobTransfer): BlobTransfer {
  return { ...inner, upload: async () => {} };
}

/** The first blob that is collected takes every other with it. */
export function collectingTooMuch(view: BlobStore): BlobStore {
  const { states } = view;
  return {
    ...view,
    states: spaceWith(states, {
      delete: async (hash) => {
        await states.delete(hash);
        for await (const other of states.list()) await states.delete(other.hash);
      },
    }),
  };
}
