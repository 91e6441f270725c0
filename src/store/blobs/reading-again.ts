// A blob store whose readers may believe "damaged": a blob that came damaged is read again, since bits also flip on the way.
// What lies damaged is damaged each time.

import { hasCode } from "../../core/errors.ts";
import type { BlobSpace, BlobStore } from "./blob-store.ts";
import { spacesOf } from "./blob-store.ts";

/** Who reads a damaged blob so often finds what lies there. */
const readsMost = 3;

export function readingAgain(blobs: BlobStore): BlobStore {
  const spaces = spacesOf((name) => withReads(blobs[name]));
  return {
    ...spaces,
    ...(blobs.tokens && { tokens: blobs.tokens }),
    origins: () => blobs.origins(),
    close: () => blobs.close(),
  };
}

function withReads(space: BlobSpace): BlobSpace {
  return {
    put: (...args) => space.put(...args),
    get: async (hash, range) => {
      for (let reads = 1; ; reads++) {
        try {
          return await space.get(hash, range);
        } catch (thrown) {
          if (reads >= readsMost || !hasCode(thrown, "data_loss")) throw thrown;
        }
      }
    },
    // Pieces are used as they come: whoever reads so has to begin anew by itself.
    stream: (hash, range) => space.stream(hash, range),
    size: (hash) => space.size(hash),
    delete: (hash) => space.delete(hash),
    list: () => space.list(),
    grant: (...args) => space.grant(...args),
  };
}
