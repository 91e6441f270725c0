// What every BlobStore must do, told as tests, with the bad input that a machine without credentials may send.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { after, before, describe, it } from "node:test";
import { type BlobSpaceName, blobBytesMax } from "../../core/blobs.ts";
import { type ErrorCode, hasCode } from "../../core/errors.ts";
import { sha256 } from "../../core/hash.ts";
import type { Sha256 } from "../../core/ids.ts";
import { conformanceWorld as world } from "../records/conformance.ts";
import type { BlobGrant, BlobStore } from "./blob-store.ts";

export interface BlobsUnderTest {
  readonly blobs: BlobStore;
  /** Sends what a holder of a grant sends. */
  request(request: Request): Promise<Response>;
  /** Works on the same blobs with a clock that is an hour behind. */
  inThePast?<Result>(work: (blobs: BlobStore) => Promise<Result>): Promise<Result>;
  /** Changes one byte of a stored state's content behind the store's back. */
  damage?(hash: Sha256): Promise<void>;
  close?(): Promise<void>;
}

/** A server has a clock of its own, and tells whole seconds. */
const clockSlackMs = 2_000;

/** Enough for several parts of a multipart upload, which have at least 5 MiB each. */
const largeBytes = 11 * 2 ** 20 + 7;

export interface BlobConformanceOptions {
  /** For a server that is known not to check what a holder of a grant sends. */
  readonly lenient?: boolean;
}

export function blobConformance(
  name: string,
  open: () => Promise<BlobsUnderTest>,
  { lenient = false }: BlobConformanceOptions = {},
): void {
  describe(`${name} keeps the promises of a BlobStore`, () => {
    let subject: BlobsUnderTest;
    before(async () => {
      subject = await open();
    });
    after(async () => {
      await subject?.blobs.close();
      await subject?.close?.();
    });
    describeContent(() => subject);
    describeSpaces(() => subject);
    describeDamage(() => subject);
    describeGrants(() => subject);
    if (!lenient) describeRefusals(() => subject);
  });
}

type Subject = () => BlobsUnderTest;

function describeContent(subject: Subject): void {
  for (const bytes of [0, 1, 2 ** 20 + 3, largeBytes]) {
    it(`gives back ${bytes} bytes, whole, streamed and in ranges`, async () => {
      const blobs = subject().blobs.states;
      const { content, hash } = sample(bytes);
      await blobs.put(hash, pieces(content), bytes);
      assert.equal(await blobs.size(hash), bytes);
      assert.ok(Buffer.from(await blobs.get(hash)).equals(content), "the whole");
      assert.ok(Buffer.concat(await Array.fromAsync(blobs.stream(hash))).equals(content), "the stream");
      for (const [start, end] of [
        [0, bytes],
        [bytes >> 1, bytes],
        [bytes >> 2, bytes >> 1],
        [bytes, bytes],
      ] as const) {
        const part = await blobs.get(hash, { start, end });
        assert.ok(Buffer.from(part).equals(content.subarray(start, end)), `bytes ${start} to ${end}`);
        const streamed = Buffer.concat(await Array.fromAsync(blobs.stream(hash, { start, end })));
        assert.ok(streamed.equals(part), `bytes ${start} to ${end}, streamed`);
      }
    });
  }

  it("stores the same blob twice, from several writers at once", async () => {
    const blobs = subject().blobs.states;
    const { content, hash } = sample(1000);
    await Promise.all([1, 2, 3].map(() => blobs.put(hash, content, content.length)));
    await blobs.put(hash, content, content.length);
    assert.ok(Buffer.from(await blobs.get(hash)).equals(content));
  });

  it("lists what it holds, and nothing after it was deleted", async () => {
    const blobs = subject().blobs.states;
    const samples = [sample(10), sample(20), sample(30)];
    for (const { content, hash } of samples) await blobs.put(hash, content, content.length);
    const listed = async () => new Map((await Array.fromAsync(blobs.list())).map(({ hash, bytes }) => [hash, bytes]));
    const before = await listed();
    for (const { content, hash } of samples) assert.equal(before.get(hash), content.length);
    for (const { hash } of samples) await blobs.delete(hash);
    await blobs.delete(samples[0]!.hash);
    const after = await listed();
    for (const { hash } of samples) assert.equal(after.has(hash), false);
  });

  it("says that a blob is not there", async () => {
    const blobs = subject().blobs.states;
    const { hash } = sample(9);
    assert.equal(await blobs.size(hash), undefined);
    await fails(blobs.get(hash), "not_found", hash);
    await fails(blobs.get(hash, { start: 0, end: 1 }), "not_found", hash);
    await fails(Array.fromAsync(blobs.stream(hash)), "not_found", hash);
  });

  it("refuses a range that is not within the blob", async () => {
    const blobs = subject().blobs.states;
    const { content, hash } = sample(10);
    await blobs.put(hash, content, 10);
    for (const range of [
      { start: 0, end: 11 },
      { start: 5, end: 4 },
      { start: -1, end: 2 },
      { start: 0.5, end: 2 },
    ])
      await fails(blobs.get(hash, range), "out_of_range", hash);
  });
}

function describeSpaces(subject: Subject): void {
  it("keeps its name spaces apart: what one holds, lists or deletes is no business of another", async () => {
    const { blobs } = subject();
    const { content, hash } = sample(600);
    await blobs.datasets.put(hash, content, content.length);
    assert.equal(await blobs.states.size(hash), undefined);
    await fails(blobs.states.get(hash), "not_found", hash);
    await blobs.states.put(hash, content, content.length);
    await blobs.states.delete(hash);
    const held = async (space: BlobSpaceName) => (await Array.fromAsync(blobs[space].list())).map((one) => one.hash);
    assert.equal((await held("states")).includes(hash), false);
    assert.equal((await held("datasets")).includes(hash), true);
    assert.ok(Buffer.from(await blobs.datasets.get(hash)).equals(content));
  });

  it("tells when a blob was last uploaded", async () => {
    const { blobs } = subject();
    const { wallMs } = world.clock;
    const { content, hash } = sample(60);
    const beforeMs = wallMs() - clockSlackMs;
    await blobs.states.put(hash, content, content.length);
    const found = (await Array.fromAsync(blobs.states.list())).find((one) => one.hash === hash);
    assert.ok(found && found.modifiedWallMs >= beforeMs && found.modifiedWallMs <= wallMs() + clockSlackMs);
  });

  it("refuses a blob that is larger than its name space allows, before it reads any of it", async () => {
    const { blobs } = subject();
    const { hash } = sample(1);
    async function* unread(): AsyncGenerator<Uint8Array> {
      yield assert.fail("it was read");
    }
    await fails(blobs.states.put(hash, unread(), blobBytesMax.states + 1), "invalid_argument", hash);
    await fails(blobs.states.grant("upload", hash, blobBytesMax.states + 1, 60_000), "invalid_argument", hash);
  });
}

function describeDamage(subject: Subject): void {
  it("stores nothing that does not have the name's hash or the announced size", async () => {
    const blobs = subject().blobs.states;
    for (const bytes of [100, largeBytes]) {
      const { content, hash } = sample(bytes);
      const altered = Buffer.from(content);
      altered[bytes - 1]! ^= 1;
      await fails(blobs.put(hash, pieces(altered), bytes), "data_loss", hash);
      await fails(blobs.put(hash, pieces(content), bytes + 1), "data_loss", hash);
      await fails(blobs.put(hash, pieces(content), bytes - 1), "data_loss", hash);
      assert.equal(await blobs.size(hash), undefined);
    }
  });

  it("stores nothing when its source breaks in the middle", async () => {
    const blobs = subject().blobs.states;
    const { content, hash } = sample(largeBytes);
    async function* breaking() {
      yield content.subarray(0, largeBytes - 100);
      throw new Error("the sender went away");
    }
    await assert.rejects(blobs.put(hash, breaking(), largeBytes), /the sender went away/);
    assert.equal(await blobs.size(hash), undefined);
  });

  it("tells damaged content from good, and an upload repairs it", async (test) => {
    const {
      blobs: { states: blobs },
      damage,
    } = subject();
    if (damage === undefined) return test.skip("its content cannot be damaged from outside");
    const { content, hash } = sample(3 * 2 ** 20);
    await blobs.put(hash, content, content.length);
    await damage(hash);
    await fails(blobs.get(hash), "data_loss", hash);
    let seen = 0;
    const reading = async () => {
      for await (const piece of blobs.stream(hash)) seen += piece.length;
    };
    await fails(reading(), "data_loss", hash);
    assert.ok(seen < content.length, "the last piece is held back");
    await blobs.put(hash, content, content.length);
    assert.ok(Buffer.from(await blobs.get(hash)).equals(content));
  });
}

function describeGrants(subject: Subject): void {
  it("lets the holder of a grant upload and download one blob without credentials", async () => {
    const {
      blobs: { states: blobs },
      request,
    } = subject();
    const { content, hash } = sample(200_000);
    const uploaded = await request(asRequest(await blobs.grant("upload", hash, content.length, 60_000), content));
    assert.ok(uploaded.ok, `upload: ${uploaded.status} ${await uploaded.text()}`);
    assert.ok(Buffer.from(await blobs.get(hash)).equals(content));
    const grant = await blobs.grant("download", hash, content.length, 60_000);
    const downloaded = await request(asRequest(grant));
    assert.ok(Buffer.from(await downloaded.arrayBuffer()).equals(content));
    const part = await request(asRequest(grant, undefined, { range: "bytes=100-199" }));
    assert.equal(part.status, 206);
    assert.ok(Buffer.from(await part.arrayBuffer()).equals(content.subarray(100, 200)));
  });
}

function describeRefusals(subject: Subject): void {
  it("refuses content that is not what the grant names", async () => {
    const {
      blobs: { states: blobs },
      request,
    } = subject();
    const { content, hash } = sample(5000);
    const grant = await blobs.grant("upload", hash, content.length, 60_000);
    const altered = Buffer.from(content);
    altered[17]! ^= 1;
    const ownChecksum = createHash("sha256").update(altered).digest("base64");
    for (const wrong of [altered, content.subarray(1), Buffer.concat([content, content])])
      await isRefused(request, asRequest(withoutLength(grant), wrong), `${wrong.length} bytes`);
    await isRefused(request, asRequest({ ...grant, headers: {} }, altered), "without the headers of the grant");
    const headers = { "x-amz-checksum-sha256": ownChecksum };
    await isRefused(request, asRequest({ ...grant, headers }, altered), "with a checksum of its own");
    assert.equal(await blobs.size(hash), undefined);
  });

  it("refuses a grant that has expired", async () => {
    const {
      blobs: { states: blobs },
      request,
      inThePast,
    } = subject();
    const { content, hash } = sample(300);
    assert.ok(inThePast);
    const [upload, download] = await inThePast(async (past) => [
      await past.states.grant("upload", hash, content.length, 60_000),
      await past.states.grant("download", hash, content.length, 60_000),
    ]);
    await isRefused(request, asRequest(upload!, content));
    assert.equal(await blobs.size(hash), undefined);
    await blobs.put(hash, content, content.length);
    await isRefused(request, asRequest(download!));
  });

  it("refuses a grant of which anything was altered", async () => {
    const {
      blobs: { states: blobs },
      request,
    } = subject();
    const [own, foreign] = [sample(400), sample(500)];
    await blobs.put(own.hash, own.content, 400);
    await blobs.put(foreign.hash, foreign.content, 500);
    const download = await blobs.grant("download", own.hash, 400, 60_000);
    await isRefused(
      request,
      asRequest({ ...download, url: download.url.replace(own.hash, foreign.hash) }),
      "another blob",
    );
    const elsewhere = download.url.replace("states", "datasets");
    assert.notEqual(elsewhere, download.url);
    await subject().blobs.datasets.put(own.hash, own.content, 400);
    await isRefused(request, asRequest({ ...download, url: elsewhere }), "another name space");
    await isRefused(request, asRequest({ ...download, method: "PUT" }, own.content), "another action");
    await isRefused(request, asRequest({ ...download, url: later(download.url) }), "a longer life");
    await isRefused(request, asRequest({ ...download, url: download.url.split("?")[0]! }), "no signature");
    assert.ok(Buffer.from(await blobs.get(own.hash)).equals(own.content));
  });
}

let samples = 0;

/** Different content at each call. */
function sample(bytes: number): { content: Buffer; hash: Sha256 } {
  const content = Buffer.alloc(bytes);
  let state = Math.imul(++samples, 2654435761) | 1;
  for (let i = 0; i < bytes; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) | 0;
    content[i] = state >>> 24;
  }
  return { content, hash: sha256(content) };
}

/** Pieces of awkward sizes, as a network delivers them. */
async function* pieces(content: Buffer): AsyncGenerator<Uint8Array> {
  for (let start = 0, size = 1; start < content.length; start += size, size = Math.min(size * 3 + 1, 700_001))
    yield content.subarray(start, start + size);
}

function asRequest(grant: BlobGrant, body?: Buffer, headers: Record<string, string> = {}): Request {
  return new Request(grant.url, {
    method: grant.method,
    headers: { ...grant.headers, ...headers },
    ...(body ? { body: new Uint8Array(body) } : {}),
  });
}

/** A client that sends another size would refuse to send the signed one with it. */
function withoutLength(grant: BlobGrant): BlobGrant {
  const { "content-length": _, ...headers } = grant.headers;
  return { ...grant, headers };
}

/** A server may also cut the connection of a sender that goes on after it was refused. */
async function isRefused(request: BlobsUnderTest["request"], sent: Request, what = ""): Promise<void> {
  const answer = await request(sent).catch(() => undefined);
  if (answer === undefined) return;
  assert.ok(answer.status >= 400 && answer.status < 500, `${what}: answered ${answer.status}`);
  await answer.text();
}

/** Turns the end of life in a signed address into a later one, whichever form it has. */
function later(url: string): string {
  const longer = url.replace(/X-Amz-Expires=\d+/, "X-Amz-Expires=600000").replace(/\.\d{13}\./, ".9999999999999.");
  assert.notEqual(longer, url);
  return longer;
}

function fails(call: Promise<unknown>, code: ErrorCode, hash: Sha256): Promise<void> {
  return assert.rejects(call, (thrown: Error) => hasCode(thrown, code) && thrown.message.includes(hash));
}
