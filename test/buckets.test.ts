// Datasets from a bucket, read from s3rver: a server that we did not write.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { PutObjectCommand, S3Client } from "@aws-sdk/client-s3";
import { openBuckets } from "../src/data/imports/buckets.ts";
import { importDataset } from "../src/data/imports/import.ts";
import { openSource } from "../src/data/imports/source.ts";
import { openMemoryBlobs } from "../src/store/memory.ts";

// It has no types.
const { default: S3rver } = await import("s3rver" as string);

process.env["AWS_ACCESS_KEY_ID"] = "S3RVER";
process.env["AWS_SECRET_ACCESS_KEY"] = "S3RVER";

test("a dataset comes from a bucket, whole or from the middle on", async () => {
  const directory = mkdtempSync(join(tmpdir(), "dcnr-buckets-"));
  const server = new S3rver({
    port: 0,
    address: "127.0.0.1",
    silent: true,
    directory,
    configureBuckets: [{ name: "texts", configs: [] }],
  });
  const { port } = (await server.run()) as AddressInfo;
  const endpoint = `http://127.0.0.1:${port}`;
  const client = new S3Client({
    endpoint,
    forcePathStyle: true,
    region: "us-east-1",
    requestChecksumCalculation: "WHEN_REQUIRED",
  });
  const buckets = openBuckets({ endpoint, region: "us-east-1" });
  try {
    const text = "a line of text\n".repeat(2_000);
    await client.send(new PutObjectCommand({ Bucket: "texts", Key: "books/one.txt", Body: text }));
    const access = { objectGet: buckets.get };
    const manifest = await importDataset({ source: "s3://texts/books/one.txt" }, access, {
      blobs: openMemoryBlobs().datasets,
    });
    assert.equal(manifest.kind, "text");
    const source = await openSource("s3://texts/books/one.txt", access);
    assert.equal(source.bytes, text.length);
    for (const start of [0, 29_990]) {
      let read = "";
      for await (const piece of source.read(start)) read += Buffer.from(piece).toString();
      assert.equal(read, text.slice(start));
    }
    await assert.rejects(openSource("s3://texts/none.txt", access), { code: "not_found" });
    await assert.rejects(openSource("s3://nowhere/none.txt", access), { code: "not_found" });
  } finally {
    buckets.close();
    client.destroy();
    await server.close();
    rmSync(directory, { recursive: true, force: true });
  }
});
