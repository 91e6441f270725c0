// Runs inside a mount namespace of full-disk.test.ts, with a folder of 2 MB that it fills up.

import assert from "node:assert/strict";
import { readdirSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DcnrError } from "../../src/core/errors.ts";
import { sha256 } from "../../src/core/hash.ts";
import { openDirectoryBlobs } from "../../src/store/blobs/directory.ts";
import { conformanceWorld as world } from "../../src/store/records/conformance.ts";
import { openSqliteStore } from "../../src/store/records/sqlite.ts";

const folder = process.argv[2]!;
const ballast = join(folder, "ballast");
const fill = () => {
  const { bavail, bsize } = statfsSync(folder);
  writeFileSync(ballast, Buffer.alloc(bavail * bsize));
};
const isFull = (path: string) => (thrown: unknown) => {
  assert.ok(thrown instanceof DcnrError && thrown.code === "resource_exhausted", String(thrown));
  assert.match(thrown.message, new RegExp(`${path}.* is full: .*free some space`));
  return true;
};

fill();
await assert.rejects(openSqliteStore({ path: join(folder, "store.db"), world }), isFull("store.db"));
await assert.rejects(openDirectoryBlobs({ path: join(folder, "blobs"), world, baseUrl: () => "" }), isFull("blobs"));
rmSync(ballast);

const store = await openSqliteStore({ path: join(folder, "store.db"), world });
await store.put("before", "kept", 0);
fill();
await assert.rejects(store.put("during", "x".repeat(100_000), 0), isFull("store.db"));
assert.equal((await store.get("before"))?.value, "kept");
rmSync(ballast);
assert.equal(await store.get("during"), undefined);
assert.equal(await store.put("during", "x".repeat(100_000), 0), 1);
await store.close();

const blobs = await openDirectoryBlobs({ path: join(folder, "blobs"), world, baseUrl: () => "" });
const small = Buffer.from("fits");
await blobs.datasets.put(sha256(small), small, small.length);
const large = Buffer.alloc(3_000_000, 7);
await assert.rejects(blobs.datasets.put(sha256(large), large, large.length), isFull("blobs"));
assert.deepEqual(readdirSync(join(folder, "blobs", "unfinished")), [], "the part that fitted was removed");
assert.equal(await blobs.datasets.size(sha256(large)), undefined);
assert.ok(small.equals(await blobs.datasets.get(sha256(small))));
console.log("done");
