// The S3 blob store against a server that checks what S3 checks, which the test starts and stops.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { hasCode } from "../../src/core/errors.ts";
import { sha256 } from "../../src/core/hash.ts";
import { blobConformance } from "../../src/store/blobs/blob-conformance.ts";
import { openS3Blobs } from "../../src/store/blobs/s3.ts";
import { openBlobStore } from "../../src/store/open.ts";
import { conformanceWorld as world } from "../../src/store/records/conformance.ts";
import { type S3Server, startS3 } from "./servers/s3.ts";

let server: S3Server;
before(async () => {
  server = await startS3();
});
after(() => server?.stop());

const prefix = "runs/one";
const past = { ...world.clock, wallMs: () => world.clock.wallMs() - 3_600_000 };
const open = (clock = world.clock) =>
  openS3Blobs({ bucket: server.bucket, prefix, endpoint: server.endpoint, world: { clock } });

blobConformance("s3", async () => ({
  blobs: await open(),
  request: (request) => fetch(request),
  inThePast: async (work) => {
    const blobs = await open(past);
    return work(blobs).finally(() => blobs.close());
  },
  damage: async (hash) => {
    const content = server.objects.get(`${prefix}/states/${hash}`)!;
    content[content.length >> 1]! ^= 1;
  },
}));

describe("an S3 blob store", () => {
  it("leaves no unfinished upload behind, which would cost money unseen", async () => {
    const blobs = await open();
    const content = Buffer.alloc(17 * 2 ** 20, 1);
    await blobs.datasets.put(sha256(content), content, content.length);
    await assert.rejects(blobs.datasets.put(sha256("other"), content, content.length), /nothing was stored/);
    assert.equal(server.uploads.size, 0);
    await blobs.close();
  });

  it("keeps to its prefix and leaves other objects of the bucket alone", async () => {
    const address = `s3://${server.bucket}/elsewhere@${server.endpoint}`;
    const blobs = await openBlobStore(address, { world, baseUrl: () => "" });
    server.objects.set("elsewhere/readme.txt", Buffer.from("not a blob"));
    await blobs.states.put(sha256("here"), Buffer.from("here"), 4);
    const listed = (await Array.fromAsync(blobs.states.list())).map(({ hash, bytes }) => ({ hash, bytes }));
    assert.deepEqual(listed, [{ hash: sha256("here"), bytes: 4 }]);
    assert.ok(server.objects.has(`elsewhere/states/${sha256("here")}`));
    await blobs.close();
  });

  it("names a bucket that does not exist and a server that does not answer", async () => {
    const bucket = "nowhere";
    await assert.rejects(openS3Blobs({ bucket, endpoint: server.endpoint, world }), /bucket nowhere .*does not exist/);
    await assert.rejects(openS3Blobs({ bucket, endpoint: "http://127.0.0.1:1", world }), (thrown: Error) => {
      assert.ok(hasCode(thrown, "unavailable"));
      assert.match(thrown.message, /nowhere at http:\/\/127\.0\.0\.1:1 did not answer/);
      return true;
    });
  });
});
