import assert from "node:assert/strict";
import { test } from "node:test";
import { DcnrError, hasCode } from "../../core/errors.ts";
import { sha256 } from "../../core/hash.ts";
import { openMemoryBlobs } from "../memory.ts";
import type { BlobStore } from "./blob-store.ts";
import { readingAgain } from "./reading-again.ts";

const content = new TextEncoder().encode("a definition");
const hash = sha256(content);

/** A store whose first reads come damaged, and how often it was asked. */
async function opened(damaged: number, code: "data_loss" | "unavailable" = "data_loss") {
  const inner = openMemoryBlobs({ clock: { wallMs: () => 0 } });
  await inner.definitions.put(hash, content, content.byteLength);
  const counted = { reads: 0 };
  const definitions = {
    ...inner.definitions,
    get: async () => {
      if (++counted.reads <= damaged) throw new DcnrError(code, `blob ${hash} came damaged: read it again`);
      return inner.definitions.get(hash);
    },
  };
  return { blobs: readingAgain({ ...inner, definitions } as BlobStore), counted };
}

test("what came damaged is read again, what lies damaged is said to be", async () => {
  const flipped = await opened(2);
  assert.deepEqual(await flipped.blobs.definitions.get(hash), content);
  assert.equal(flipped.counted.reads, 3);
  const rotten = await opened(Number.POSITIVE_INFINITY);
  await assert.rejects(rotten.blobs.definitions.get(hash), (thrown) => hasCode(thrown, "data_loss"));
  assert.equal(rotten.counted.reads, 3);
});

test("other failures are for whoever asked", async () => {
  const away = await opened(1, "unavailable");
  await assert.rejects(away.blobs.definitions.get(hash), (thrown) => hasCode(thrown, "unavailable"));
  assert.equal(away.counted.reads, 1);
});
