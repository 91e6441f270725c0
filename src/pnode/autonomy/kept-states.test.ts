import assert from "node:assert/strict";
import { test } from "node:test";
import { sha256 } from "../../core/hash.ts";
import type { SessionId, Sha256, VNodeId } from "../../core/ids.ts";
import type { StateManifest } from "../../states/manifest.ts";
import { KeptStates, memoryKept } from "./kept-states.ts";
import { readTrail, trailOf, trailStepsMax } from "./trail.ts";

const session = "s-1" as SessionId;
const vnode = "a" as VNodeId;

/** A state of one tensor, in parts of 4 bytes. */
function stateOf(values: readonly number[]) {
  const content = new Uint8Array(new Float32Array(values).buffer);
  const parts = values.map((_, index) => content.slice(4 * index, 4 * index + 4));
  const blobs = new Map<Sha256, Uint8Array>(parts.map((part) => [sha256(part), part]));
  const manifest: StateManifest = {
    metadata: {},
    tensors: [{ name: "w", dtype: "float32", shape: [values.length] }],
    bytes: content.byteLength,
    partBytes: 4,
    parts: parts.map((part) => sha256(part)),
  };
  const brought: string[] = [];
  const bring = async (hash: Sha256) => {
    brought.push(hash);
    return blobs.get(hash) as Uint8Array;
  };
  return { manifest, bring, brought };
}

test("a part that two states share lies there once, until neither needs it", async () => {
  const storage = memoryKept();
  const kept = new KeptStates(storage);
  const [first, second] = [stateOf([1, 2]), stateOf([2, 3])];
  await kept.keep({ session, vnode, step: 1, trail: "", trailBytes: 0, ...first });
  await kept.keep({ session, vnode, step: 2, trail: "", trailBytes: 0, ...second });
  assert.equal(second.brought.length, 1);
  await kept.dropBelow(session, 2);
  const snapshot = await kept.snapshot(kept.find(session, vnode, 2) as never);
  assert.deepEqual(await snapshot.part(0), new Uint8Array(new Float32Array([2]).buffer));
  assert.equal(kept.has(first.manifest.parts[0] as Sha256), false);
  await kept.forget(session);
  assert.deepEqual(await storage.list(), []);
});

test("a PNode that starts again has what it kept, but for what is not whole", async () => {
  const storage = memoryKept();
  const before = new KeptStates(storage);
  await before.keep({ session, vnode, step: 1, trail: "", trailBytes: 0, ...stateOf([1]) });
  const broken = await before.keep({ session, vnode, step: 2, trail: "", trailBytes: 0, ...stateOf([2]) });
  await before.keepCharter(session, new Uint8Array([7]));
  await storage.remove(`blob-${broken.parts[0]}`);
  const after = new KeptStates(storage);
  await after.open();
  assert.deepEqual(
    after.of(session).map(({ step }) => step),
    [1],
  );
  assert.deepEqual(after.charters.get(session), new Uint8Array([7]));
});

test("a state that could not be kept whole leaves nothing behind", async () => {
  const storage = memoryKept();
  const kept = new KeptStates(storage);
  const { manifest } = stateOf([1, 2]);
  const bring = async () => Promise.reject(new Error("the owner is gone"));
  await assert.rejects(kept.keep({ session, vnode, step: 1, trail: "", trailBytes: 0, manifest, bring }), /gone/);
  assert.deepEqual([kept.of(session), await storage.list()], [[], []]);
});

const wanted = { session, vnode, step: 1, trail: "" as const, trailBytes: 0 };

test("a second attempt brings only what is missing, until nobody wants the state any more", async () => {
  const storage = memoryKept();
  const kept = new KeptStates(storage);
  const { manifest, bring, brought } = stateOf([1, 2, 3]);
  const breaking = async (hash: Sha256) => (hash === manifest.parts[2] ? assert.fail("the line broke") : bring(hash));
  await assert.rejects(kept.keep({ ...wanted, manifest, bring: breaking }), /broke/);
  assert.deepEqual([kept.of(session), kept.countOf(session, vnode)], [[], 1], "it counts as one that lies here");
  await kept.keep({ ...wanted, manifest, bring });
  assert.deepEqual(brought, manifest.parts);
  assert.deepEqual([kept.of(session).length, kept.countOf(session, vnode)], [1, 1]);

  for (const drop of [() => kept.dropBelow(session, 2), () => kept.forget(session)]) {
    const other = stateOf([1, 2, 9]);
    const halting = async (hash: Sha256) => (hash === other.manifest.parts[2] ? assert.fail("it broke") : bring(hash));
    await assert.rejects(kept.keep({ ...wanted, manifest: other.manifest, bring: halting }), /broke/);
    await drop();
    assert.deepEqual([await storage.list(), kept.countOf(session, vnode)], [[], 0]);
  }
});

test("what has come of a state that is not whole is nobody's but its session's", async () => {
  const kept = new KeptStates(memoryKept());
  const { manifest, bring } = stateOf([1, 2]);
  const [first, second] = manifest.parts as [Sha256, Sha256];
  const other = "s-2" as SessionId;
  await kept.keep({ ...wanted, session: other, manifest: stateOf([2]).manifest, bring });
  const breaking = async (hash: Sha256) => (hash === second ? assert.fail("it broke") : bring(hash));
  await assert.rejects(kept.keep({ ...wanted, manifest, bring: breaking }), /broke/);
  assert.deepEqual([kept.isOf(session, first), kept.isOf(session, second)], [true, false]);
  assert.equal(kept.isOf(other, first), false);
});

test("a state that the disk does not take leaves its room to others, and what cannot fit is not begun", async () => {
  const storage = { ...memoryKept(), freeBytes: () => 8 };
  const kept = new KeptStates({
    ...storage,
    write: (name, content) =>
      storage.list().then((names) => (names.length === 2 ? assert.fail("full") : storage.write(name, content))),
  });
  await assert.rejects(kept.keep({ ...wanted, ...stateOf([1, 2]) }), /full/);
  assert.deepEqual([await storage.list(), kept.countOf(session, vnode)], [[], 0]);
  const large = stateOf([1, 2, 3]);
  await assert.rejects(kept.keep({ ...wanted, ...large }), { code: "resource_exhausted" });
  assert.deepEqual(large.brought, []);
});

test("two that ask at once to keep a state wait for one: nothing of it stays when it is dropped", async () => {
  const storage = memoryKept();
  const kept = new KeptStates(storage);
  const [first, other] = [stateOf([1, 2]), stateOf([1, 3])];
  await Promise.all([first, first, other].map((state) => kept.keep({ ...wanted, ...state })));
  assert.deepEqual(first.brought, first.manifest.parts);
  assert.equal(kept.of(session).length, 1, "a step has one state");
  await kept.dropBelow(session, 2);
  assert.deepEqual(await storage.list(), []);
});

test("what is still on its way when its session is forgotten is not kept", async () => {
  const storage = memoryKept();
  const kept = new KeptStates(storage);
  const { manifest, bring } = stateOf([1, 2]);
  let arrive = () => {};
  const slow = (hash: Sha256) =>
    new Promise<Uint8Array>((resolve) => {
      arrive = () => resolve(bring(hash));
    });
  const keeping = kept.keep({ ...wanted, manifest, bring: slow });
  await new Promise(setImmediate);
  const forgetting = kept.forget(session);
  arrive();
  await assert.rejects(keeping, /not needed any more/);
  await forgetting;
  assert.deepEqual([kept.of(session), await storage.list()], [[], []]);
});

test("a PNode that starts again drops states of sessions of which it has no charter", async () => {
  const storage = memoryKept();
  const before = new KeptStates(storage);
  await before.keep({ ...wanted, ...stateOf([1]) });
  const after = new KeptStates(storage);
  await after.open();
  assert.deepEqual([after.all(), await storage.list()], [[], []]);
});

test("a trail tells the hashes of the steps before a state, without gaps, the newest first to stay", () => {
  const hashes = (from: number, to: number) =>
    Array.from({ length: to - from + 1 }, (_, index) => ({ step: from + index, hash: sha256(`${from + index}`) }));
  assert.deepEqual(readTrail(trailOf(hashes(3, 9)), 9), hashes(3, 9));
  assert.deepEqual(readTrail(trailOf([...hashes(1, 2), ...hashes(5, 6)]), 6), hashes(5, 6));
  assert.equal(readTrail(trailOf(hashes(1, trailStepsMax + 5)), trailStepsMax + 5)[0]?.step, 6);
  assert.throws(() => readTrail(new Uint8Array(33), 9), /no hashes/);
  assert.throws(() => readTrail(trailOf(hashes(1, 3)), 2), /no hashes/);
});

test("whoever knows the name of another session's blob has to bring it", async () => {
  const kept = new KeptStates(memoryKept());
  const [first, second] = [stateOf([1, 2]), stateOf([1, 2])];
  await kept.keep({ session, vnode, step: 1, trail: "", trailBytes: 0, ...first });
  const other = "s-2" as SessionId;
  const [part] = first.manifest.parts as [Sha256];
  assert.deepEqual([kept.isOf(session, part), kept.isOf(other, part)], [true, false]);
  const refuses = async () => assert.fail("somebody who does not have it");
  const bare = { session: other, vnode, step: 1, trail: "" as const, trailBytes: 0, manifest: first.manifest };
  await assert.rejects(kept.keep({ ...bare, bring: refuses }), /does not have it/);
  assert.equal(kept.isOf(other, part), false);
  await kept.keep({ ...bare, ...second });
  assert.ok(kept.isOf(other, part));
  assert.equal(second.brought.length, 2);
});
