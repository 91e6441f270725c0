import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { sha256 } from "../../core/hash.ts";
import { conformanceWorld as world } from "../records/conformance.ts";
import { pieceBytes } from "./blob-checks.ts";
import { blobConformance } from "./blob-conformance.ts";
import { blobHttpHandler } from "./blob-http.ts";
import { openDirectoryBlobs } from "./directory.ts";

const folder = mkdtempSync(join(tmpdir(), "dcnr-blobs-"));
after(() => rmSync(folder, { recursive: true }));
const baseUrl = () => "http://blobs.invalid:1234";
const open = (name: string) => openDirectoryBlobs({ path: join(folder, name), world, baseUrl });

blobConformance("directory", async () => {
  const blobs = await open("shared");
  const handler = blobHttpHandler(blobs);
  const clock = { ...world.clock, wallMs: () => world.clock.wallMs() - 3_600_000 };
  return {
    blobs,
    request: async (request) => (await handler(request, "test", { hold: () => true }))!,
    inThePast: async (work) =>
      work(await openDirectoryBlobs({ path: join(folder, "shared"), world: { ...world, clock }, baseUrl })),
    damage: async (hash) => {
      const file = join(folder, "shared", "states", hash.slice(0, 2), hash);
      const content = readFileSync(file);
      content[content.length >> 1]! ^= 1;
      writeFileSync(file, content);
    },
  };
});

describe("a blob directory", () => {
  it("leaves nothing unfinished behind, neither after success nor after failure", async () => {
    const blobs = await open("tidy");
    const content = Buffer.from("content");
    await blobs.states.put(sha256(content), content, content.length);
    await assert.rejects(blobs.states.put(sha256("other"), content, content.length), /nothing was stored/);
    assert.deepEqual(readdirSync(join(folder, "tidy", "unfinished")), []);
  });

  it("sweeps what crashed uploads left a day ago, and nothing younger", async () => {
    await open("swept");
    const unfinished = join(folder, "swept", "unfinished");
    for (const name of ["old", "young"]) writeFileSync(join(unfinished, name), "half a blob");
    const longAgo = new Date(world.clock.wallMs() - 25 * 3_600_000);
    utimesSync(join(unfinished, "old"), longAgo, longAgo);
    await open("swept");
    assert.deepEqual(readdirSync(unfinished), ["young"]);
  });

  it("signs with one key, whoever opens it first, which only its owner can read", async () => {
    const several = await Promise.all([open("key"), open("key"), open("key")]);
    const hash = sha256("content");
    for (const granting of several)
      for (const checking of several) {
        const token = new URL((await granting.datasets.grant("download", hash, 7, 60_000)).url).searchParams.get(
          "token",
        );
        assert.equal(checking.tokens!.check(token!, "datasets", "download", hash), 7);
      }
    assert.equal(statSync(join(folder, "key", "grant-key")).mode & 0o777, 0o600);
  });

  it("names a path that cannot be used", async () => {
    writeFileSync(join(folder, "file"), "");
    await assert.rejects(open("file"), /blob directory .*file cannot be used .*check the path/);
  });
});

describe("blobs over HTTP", () => {
  const content = Buffer.from("0123456789");
  const hash = sha256(content);
  const served = async () => {
    const blobs = await open("served");
    await blobs.datasets.put(hash, content, 10);
    const { url } = await blobs.datasets.grant("download", hash, 10, 60_000);
    const handler = blobHttpHandler(blobs);
    const ask = (init: RequestInit = {}, address = url) =>
      handler(new Request(address, init), "test", { hold: () => true });
    return { blobs, url, ask };
  };

  it("leaves other paths to other handlers", async () => {
    const { ask } = await served();
    assert.equal(await ask({}, "http://blobs.invalid/dashboard"), undefined);
  });

  it("answers HEAD with the size and without content", async () => {
    const { ask } = await served();
    const answer = await ask({ method: "HEAD" });
    assert.equal(answer?.headers.get("content-length"), "10");
    assert.equal(await answer?.text(), "");
  });

  it("reads a part in pieces, each when it is asked for, and none where there is no room for it", async () => {
    const { blobs } = await served();
    const large = Buffer.alloc(4 * pieceBytes, 7);
    const name = sha256(large);
    await blobs.datasets.put(name, large, large.length);
    const { url } = await blobs.datasets.grant("download", name, large.length, 60_000);
    const ask = (room: number) =>
      blobHttpHandler(blobs)(new Request(url, { headers: { range: "bytes=1-" } }), "test", {
        hold: (bytes) => bytes <= room,
      });
    const parts = await Array.fromAsync((await ask(pieceBytes))?.body ?? []);
    assert.deepEqual(
      parts.map(({ byteLength }) => byteLength),
      [pieceBytes, pieceBytes, pieceBytes, pieceBytes - 1],
    );
    const refused = await ask(pieceBytes - 1);
    assert.deepEqual([refused?.status, refused?.headers.get("dcnr-error")], [503, "unavailable"]);
  });

  it("serves ranges as RFC 9110 writes them", async () => {
    const { ask } = await served();
    const get = async (range: string) => {
      const answer = await ask({ headers: { range } });
      return [answer?.status, answer?.status === 416 ? "" : await answer?.text(), answer?.headers.get("content-range")];
    };
    assert.deepEqual(await get("bytes=2-4"), [206, "234", "bytes 2-4/10"]);
    assert.deepEqual(await get("bytes=7-"), [206, "789", "bytes 7-9/10"]);
    assert.deepEqual(await get("bytes=-2"), [206, "89", "bytes 8-9/10"]);
    assert.deepEqual(await get("bytes=8-99"), [206, "89", "bytes 8-9/10"]);
    assert.deepEqual(await get("bytes=10-11"), [416, "", "bytes */10"]);
    assert.deepEqual(await get("bytes=4-2"), [200, "0123456789", null]);
    assert.deepEqual(await get("lines=1-2"), [200, "0123456789", null]);
  });

  it("refuses before it reads: no token, a bad name, a wrong length, an unknown method", async () => {
    const { blobs, ask, url } = await served();
    const status = async (address: string, init?: RequestInit) => (await ask(init, address))?.status;
    assert.equal(await status(url.split("?")[0]!), 401);
    assert.equal(await status(url.replace(hash, "..%2fgrant-key")), 400);
    assert.equal(await status(url.replace("datasets", "secrets")), 404);
    assert.equal(await status(url, { method: "DELETE" }), 405);
    const upload = await blobs.datasets.grant("upload", sha256("more"), 4, 60_000);
    let pulled = 0;
    const body = new ReadableStream({ pull: () => void pulled++ }, { highWaterMark: 0 });
    const init = { method: "PUT", body, duplex: "half", headers: { "content-length": "5000000000" } };
    assert.equal(await status(upload.url, init as RequestInit), 400);
    assert.equal(pulled, 0);
  });

  it("says in one sentence why it refuses", async () => {
    const { ask, url } = await served();
    const answer = await ask({}, url.replace("download.10", "download.11"));
    assert.equal(answer?.headers.get("dcnr-error"), "permission_denied");
    assert.match((await answer?.text()) ?? "", /was altered: ask for a new address\n$/);
  });
});
