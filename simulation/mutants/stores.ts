// Stores and transfers that break what is promised of them.

import { hasCode } from "../../src/core/errors.ts";
import type { BlobTransfer } from "../../src/pnode/options.ts";
import type { BlobStore } from "../../src/store/blob-store.ts";
import type { StateStore } from "../../src/store/state-store.ts";
import type { Host } from "../world.ts";
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

/** Says "stored" and loses every third blob. */
export function losingBlobs(view: BlobStore): BlobStore {
  let count = 0;
  const lost = new Map<string, number>();
  return blobsWith(view, {
    put: async (hash, content, bytes) => {
      count += 1;
      if (count % 3 !== 0) return view.put(hash, content, bytes);
      lost.set(hash, bytes);
    },
    size: async (hash) => lost.get(hash) ?? view.size(hash),
  });
}

/** The views are objects of classes, so spreading them would lose their methods. */
export function blobsWith(view: BlobStore, changes: Partial<BlobStore>): BlobStore {
  return {
    ...(view.tokens ? { tokens: view.tokens } : {}),
    put: (hash, content, bytes) => view.put(hash, content, bytes),
    get: (hash, range) => view.get(hash, range),
    stream: (hash) => view.stream(hash),
    size: (hash) => view.size(hash),
    delete: (hash) => view.delete(hash),
    list: () => view.list(),
    grant: (action, hash, bytes, lifetimeMs) => view.grant(action, hash, bytes, lifetimeMs),
    close: () => view.close(),
    ...changes,
  };
}

/** Says "uploaded" at once and begins much later, if the process lives until then. */
export function uploadsLater(inner: BlobTransfer, host: Host): BlobTransfer {
  return {
    ...inner,
    upload: async (to, content, signal) => {
      const copy = content.slice();
      host.after(4_000, () => void inner.upload(to, copy, signal).catch(() => {}));
    },
  };
}
