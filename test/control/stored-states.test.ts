// A state is durable only if all of it is stored, and nothing but states is ever collected.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type ErrorCode, hasCode } from "../../src/core/errors.ts";
import { sha256 } from "../../src/core/hash.ts";
import type { Sha256 } from "../../src/core/ids.ts";
import type { SessionRecord } from "../../src/orchestrator/records/sessions.ts";
import type { VNodeRecord } from "../../src/orchestrator/records/vnodes.ts";
import { BlobSpace } from "../../src/protocol/gen/dcnr/v1/common_pb.ts";
import { BlobAction, PNodeService } from "../../src/protocol/gen/dcnr/v1/pnode_pb.ts";
import { memoryState } from "../../src/states/in-memory.ts";
import { type StateManifest, writeStateManifest } from "../../src/states/manifest.ts";
import { Stage } from "./stage.ts";

const step = 18;

/** A session of which somebody, who is a member, is about to record a late step. */
async function aboutToRecord(stage: Stage) {
  await stage.orchestrator("o1", { garbageDelayMs: 1_000 });
  const node = stage.pnode("p0", { stepMs: 2_000 });
  await stage.until("the PNode attaches", () => node.attachedTo !== "");
  const session = await stage.session();
  await stage.untilRecord<VNodeRecord>("it is placed", `vnode/${session}/a`, (one) => one.members.length > 0);
  const put = async (content: Uint8Array) => {
    await stage.blobs.inner.states.put(sha256(content), content, content.byteLength);
    return sha256(content);
  };
  const record = async (state: Sha256, bytes: number) => {
    const { epoch } = (await stage.record<VNodeRecord>(`vnode/${session}/a`)) as VNodeRecord;
    const request = { session, vnode: "a", epoch: BigInt(epoch), step: BigInt(step), state };
    return stage.callAs("p0", PNodeService.method.recordDurable, { ...request, stateBytes: BigInt(bytes) });
  };
  const recorded = async () => (await stage.record<VNodeRecord>(`vnode/${session}/a`))?.durable[String(step)];
  return { session, put, record, recorded };
}

async function generated() {
  const data = Uint8Array.from({ length: 150 }, (_, i) => i);
  const tensors = new Map([["w", { dtype: "uint8" as const, shape: [150], data }]]);
  return memoryState({ metadata: { vnode: "a", step: String(step) }, tensors });
}

const failing = (code: ErrorCode, pattern: RegExp) => (error: unknown) =>
  hasCode(error, code) && pattern.test((error as Error).message);

describe("a state", () => {
  it("is recorded only when its manifest and every part are stored", async () => {
    const stage = new Stage();
    const { put, record, recorded } = await aboutToRecord(stage);
    const { state, manifest, blobs } = await generated();
    await assert.rejects(record(state, manifest.bytes), failing("aborted", /the state .* is not in the blob store/));
    await put(writeStateManifest(manifest));
    for (const part of manifest.parts) {
      await assert.rejects(record(state, manifest.bytes), failing("aborted", /part .* is not in the blob store/));
      assert.equal(await recorded(), undefined);
      await put(blobs.get(part) as Uint8Array);
    }
    await assert.rejects(record(state, manifest.bytes + 1), failing("invalid_argument", /has 150 bytes, not the 151/));
    assert.equal(await recorded(), undefined);
    await record(state, manifest.bytes);
    assert.deepEqual(await recorded(), { hash: state, bytes: 150 });
    await stage.stop();
  });

  it("is not recorded when a part has another size than its manifest says", async () => {
    const stage = new Stage();
    const { put, record, recorded } = await aboutToRecord(stage);
    const short = await put(Uint8Array.of(1, 2, 3));
    const tensors = [{ name: "w", dtype: "uint8" as const, shape: [40] }];
    const manifest: StateManifest = { metadata: {}, tensors, bytes: 40, partBytes: 64, parts: [short] };
    const state = await put(writeStateManifest(manifest));
    await assert.rejects(record(state, 40), failing("aborted", /has 3 bytes there, not 40/));
    assert.equal(await recorded(), undefined);
    await stage.stop();
  });

  it("is nothing that is no manifest, and no dataset's blob", async () => {
    const stage = new Stage();
    const { session, put, record, recorded } = await aboutToRecord(stage);
    const nonsense = await put(new TextEncoder().encode("no manifest"));
    await assert.rejects(record(nonsense, 11), failing("aborted", /is not in the blob store, or damaged there/));
    const { identity } = (await stage.sessionRecord(session)) as SessionRecord;
    await assert.rejects(record(identity.dataset, 1), failing("aborted", /is not in the blob store/));
    assert.equal(await recorded(), undefined);
    await stage.stop();
  });
});

describe("a PNode's grants", () => {
  it("are for states, within the size of what may lie among them, and end after a quarter of an hour", async () => {
    const stage = new Stage();
    const { session } = await aboutToRecord(stage);
    const hash = sha256("anything");
    const ask = (space: BlobSpace, action: BlobAction, bytes = 4n) =>
      stage.callAs("p0", PNodeService.method.grantBlob, { session, hash, bytes, action, space });
    const wallMs = () => stage.world.host("o1")?.world.clock.wallMs() ?? Number.NaN;
    const askedMs = wallMs();
    const { url, expiresWallMs } = await ask(BlobSpace.STATES, BlobAction.UPLOAD);
    assert.match(url, /\/blobs\/states\//);
    const grantedMs = Number(expiresWallMs) - 15 * 60_000;
    assert.ok(
      grantedMs >= askedMs && grantedMs <= wallMs() + 1,
      "that an address has ended is refused by every blob store",
    );
    for (const space of [BlobSpace.DATASETS, BlobSpace.VOCABULARIES, BlobSpace.DEFINITIONS, BlobSpace.UNSPECIFIED])
      await assert.rejects(ask(space, BlobAction.UPLOAD), failing("permission_denied", /uploads states only/));
    await assert.rejects(
      ask(BlobSpace.STATES, BlobAction.UPLOAD, 5n << 30n),
      failing("invalid_argument", /at most 67108864 are allowed among states/),
    );
    const named = failing("permission_denied", /states, datasets and vocabularies only/);
    await assert.rejects(ask(BlobSpace.DEFINITIONS, BlobAction.DOWNLOAD), named);
    const own = failing("permission_denied", /has no vocabulary/);
    await assert.rejects(ask(BlobSpace.VOCABULARIES, BlobAction.DOWNLOAD), own);
    await stage.stop();
  });

  it("are for several uploads at once, all or none", async () => {
    const stage = new Stage();
    const { session, put } = await aboutToRecord(stage);
    const there = await put(Uint8Array.of(1, 2, 3));
    const named = (text: string, bytes = 4n) => ({ hash: sha256(text), bytes });
    const ask = (more: { hash: string; bytes: bigint }[], action: BlobAction = BlobAction.UPLOAD) =>
      stage.callAs("p0", PNodeService.method.grantBlob, {
        ...{ session, ...named("first"), action, space: BlobSpace.STATES, more },
      });
    const granted = await ask([named("second"), { hash: there, bytes: 3n }, named("third")]);
    assert.match(granted.url, new RegExp(sha256("first")));
    assert.deepEqual(
      granted.more.map(({ present }) => present),
      [false, true, false],
    );
    assert.match(granted.more[2]?.url ?? "", new RegExp(sha256("third")));
    await assert.rejects(
      ask([named("second", 5n << 30n)]),
      failing("invalid_argument", /at most 67108864 are allowed/),
    );
    const many = Array.from({ length: 64 }, (_, index) => named(`${index}`));
    await assert.rejects(ask(many), failing("invalid_argument", /65 blobs are named, at most 64/));
    await stage.stop();
  });

  it("are for what its own VNodes name: states, their parts, and the session's data", async () => {
    const stage = new Stage();
    const { session, put, record } = await aboutToRecord(stage);
    const stranger = stage.pnode("p1", { register: { closed: true } });
    await stage.until("another attaches", () => stranger.attachedTo !== "");
    const { state, manifest, blobs } = await generated();
    for (const content of blobs.values()) await put(content);
    const other = await put(new TextEncoder().encode("another VNode's"));
    const { identity } = (await stage.sessionRecord(session)) as SessionRecord;
    const ask = (pnode: string, space: BlobSpace, hash: string) =>
      stage.callAs(pnode, PNodeService.method.grantBlob, { session, hash, action: BlobAction.DOWNLOAD, space });
    const unnamed = failing("not_found", /no VNode of session .* that PNode p0 hosts has the state or part/);
    await assert.rejects(ask("p0", BlobSpace.STATES, state), unnamed);
    await stage.pass(1_500);
    await record(state, manifest.bytes);
    for (const hash of [...manifest.parts, state]) assert.ok((await ask("p0", BlobSpace.STATES, hash)).present);
    await assert.rejects(ask("p0", BlobSpace.STATES, other), unnamed);
    const askTogether = (hashes: readonly string[]) =>
      stage.callAs("p0", PNodeService.method.grantBlob, {
        ...{ session, hash: state, action: BlobAction.DOWNLOAD, space: BlobSpace.STATES },
        more: hashes.map((hash) => ({ hash, bytes: 0n })),
      });
    const { more } = await askTogether(manifest.parts);
    for (const [at, part] of manifest.parts.entries()) assert.match(more[at]?.url ?? "", new RegExp(part));
    await stage.pass(1_500);
    await assert.rejects(askTogether([...manifest.parts, other]), unnamed);
    const many = Array.from({ length: 64 }, () => state);
    await assert.rejects(askTogether(many), failing("invalid_argument", /65 blobs are named, at most 64/));
    assert.ok((await ask("p0", BlobSpace.DATASETS, identity.dataset)).present);
    await assert.rejects(ask("p0", BlobSpace.DATASETS, state), failing("permission_denied", /have no blob/));
    const noPart = failing("permission_denied", /PNode p1 hosts no VNode of session/);
    await assert.rejects(ask("p1", BlobSpace.STATES, state), noPart);
    await assert.rejects(ask("p1", BlobSpace.STATES, state), failing("unavailable", /ask again in a second/));
    await stage.pass(1_500);
    await assert.rejects(ask("p1", BlobSpace.DATASETS, identity.dataset), noPart);
    const upload = { session, hash: state, bytes: 4n, action: BlobAction.UPLOAD, space: BlobSpace.STATES };
    await stage.pass(1_500);
    await assert.rejects(stage.callAs("p1", PNodeService.method.grantBlob, upload), noPart);
    await stage.stop();
  });

  it("end when too much was uploaded and not recorded, and go on when it was", async () => {
    const stage = new Stage();
    const { session, put, record } = await aboutToRecord(stage);
    const { state, manifest, blobs } = await generated();
    const ask = (hash: string, bytes: number) =>
      stage.callAs("p0", PNodeService.method.grantBlob, {
        ...{ session, hash, bytes: BigInt(bytes), action: BlobAction.UPLOAD, space: BlobSpace.STATES },
      });
    for (const [hash, content] of blobs) await ask(hash, content.byteLength);
    // Asking for the same again costs nothing more.
    for (let i = 0; i < 63 * 2; i++) await ask(sha256(String(i % 63)), 16 << 20);
    const refused = failing("resource_exhausted", /did not record, of 1073741824 that it may/);
    await assert.rejects(ask(sha256("one more"), 16 << 20), refused);
    for (const content of blobs.values()) await put(content);
    await record(state, manifest.bytes);
    assert.match((await ask(sha256("one more"), 16 << 20)).url, /\/blobs\/states\//);
    await assert.rejects(ask(sha256("two more"), 16 << 20), refused);
    await stage.stop();
  });
});

describe("collecting", () => {
  it("deletes uploads that nobody recorded, once they are old, and nothing that is in use or no state", async () => {
    const stage = new Stage();
    await stage.orchestrator("o1", { unrecordedCheckMs: 20_000, unrecordedAfterMs: 400_000 });
    const node = stage.pnode("p0", { stepMs: 50 });
    await stage.until("the PNode attaches", () => node.attachedTo !== "");
    const session = await stage.session();
    const isDone = (one: SessionRecord) => one.status === "done";
    await stage.untilRecord("the session is done", `session/${session}`, isDone);
    const content = new TextEncoder().encode("half a state");
    const names = async () => {
      const held = new Set<string>();
      for (const space of ["states", "datasets", "definitions"] as const)
        for await (const { hash } of stage.blobs.inner[space].list()) held.add(`${space}/${hash}`);
      return held;
    };
    const before = await names();
    const { states, datasets } = stage.blobs.inner;
    await states.put(sha256(content), content, content.byteLength);
    // Who uploads a piece of a dataset as if it were a state has it collected among states, and nowhere else.
    const piece = new TextEncoder().encode("a piece of a dataset");
    for (const space of [datasets, states]) await space.put(sha256(piece), piece, piece.byteLength);
    // Machines do not agree about the time of day; a minute is far beyond what differs here.
    await stage.pass(340_000);
    assert.ok((await names()).has(`states/${sha256(content)}`), "its upload may still be under way");
    await stage.pass(160_000);
    const after = await names();
    assert.ok(!after.has(`states/${sha256(content)}`));
    assert.ok(!after.has(`states/${sha256(piece)}`));
    assert.ok(after.has(`datasets/${sha256(piece)}`));
    const { durable } = (await stage.record<VNodeRecord>(`vnode/${session}/a`)) as VNodeRecord;
    for (const { hash } of Object.values(durable)) assert.ok(after.has(`states/${hash}`));
    for (const name of before) if (!name.startsWith("states/")) assert.ok(after.has(name), name);
    await stage.stop();
  });
});
