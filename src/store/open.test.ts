import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { hasCode } from "../core/errors.ts";
import { openBlobStore, openStateStore } from "./open.ts";
import { conformanceWorld as world } from "./records/conformance.ts";

const folder = mkdtempSync(join(tmpdir(), "dcnr-open-"));
after(() => rmSync(folder, { recursive: true }));
const baseUrl = () => "http://127.0.0.1:1";

describe("a store's address", () => {
  it("opens what it names", async () => {
    for (const address of ["memory", `sqlite:${join(folder, "store.db")}`]) {
      const store = await openStateStore(address, { world });
      assert.equal(await store.put("key", "value", 0), 1);
      await store.close();
    }
    for (const address of ["memory", `dir:${join(folder, "blobs")}`]) {
      const blobs = await openBlobStore(address, { world, baseUrl });
      assert.deepEqual(await Array.fromAsync(blobs.states.list()), []);
      await blobs.close();
    }
  });

  it("of another form is refused with the forms there are", async () => {
    const refuses = (call: Promise<unknown>, sentence: RegExp) =>
      assert.rejects(call, (thrown: Error) => hasCode(thrown, "invalid_argument") && sentence.test(thrown.message));
    for (const address of ["", "mysql://host/db", "sqlite:", "dynamodb:", "postgres://", "Memory"])
      await refuses(openStateStore(address, { world }), /use memory, sqlite:PATH, dynamodb:TABLE/);
    for (const address of ["", "dir:", "s3:", "s3://", "s3:///prefix", "ftp://x"])
      await refuses(openBlobStore(address, { world, baseUrl }), /use memory, dir:PATH or s3:/);
    await refuses(openStateStore("dynamodb:@http://127.0.0.1:1", { world }), /NAME@ENDPOINT/);
    await refuses(openStateStore("dynamodb:table@http://", { world }), /NAME@ENDPOINT/);
  });
});
