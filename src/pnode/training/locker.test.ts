import assert from "node:assert/strict";
import { it } from "node:test";
import { statePartBytes } from "../../core/blobs.ts";
import { fail } from "../../core/errors.ts";
import { hashOfContent, sha256 } from "../../core/hash.ts";
import type { SessionId, Sha256, VNodeId } from "../../core/ids.ts";
import { Tasks } from "../../core/tasks.ts";
import { silentLog, type World } from "../../core/world.ts";
import type { MovedBlob } from "../../states/grants.ts";
import type { BlobStore } from "../../store/blobs/blob-store.ts";
import { openMemoryBlobs } from "../../store/memory.ts";
import type { BlobClient } from "../blob-client.ts";
import { timingsDefault } from "../options.ts";
import { Locker } from "./locker.ts";
import { Retention } from "./retention.ts";

const world: World = {
  clock: { wallMs: () => 0, monotonicMs: () => 0 },
  timers: {
    after: (_, callback) => {
      queueMicrotask(callback);
      return () => {};
    },
  },
  chance: { bytes: (count) => new Uint8Array(count), uniform: () => 0.5 },
  log: silentLog,
};
const { signal } = new AbortController();

interface Faults {
  readonly refusesGroups?: boolean;
  /** The upload of this message never ends. */
  readonly stuck?: number;
}

/** A locker, what it stores for whom, and how many messages each of its questions names. */
function opened({ refusesGroups = false, stuck = -1 }: Faults = {}) {
  const stored = new Set<string>();
  const order: string[] = [];
  const asked: number[] = [];
  const granted = (session: string, blobs: readonly MovedBlob[]) => {
    asked.push(blobs.length);
    if (refusesGroups && blobs.length > 1) fail("unavailable", "no orchestrator is there");
    return blobs.map(({ hash, bytes }) => async (read: () => Promise<Uint8Array>) => {
      const content = await read();
      if (new Float32Array(content.slice(-4).buffer)[0] === stuck) await new Promise(() => {});
      assert.deepEqual([sha256(content), content.byteLength], [hash, bytes]);
      stored.add(hash);
      order.push(session);
    });
  };
  const blobs = {
    grantLists: async (session: string, wanted: readonly MovedBlob[]) => granted(session, wanted),
    storeList: async (session: string, hash: string, content: Uint8Array) =>
      granted(session, [{ hash, bytes: content.byteLength } as MovedBlob])[0]?.(async () => content),
  } as unknown as BlobClient;
  const tasks = new Tasks(silentLog);
  const locker = new Locker({ world, tasks, timings: timingsDefault, blobs, signal });
  const retention = new Retention({ memoryBytesMax: 1 << 20, diskBytesMax: 0, tasks, onFull: () => {} });
  const lock = (session: string, count: number) => {
    const kept = Array.from({ length: count }, (_, at) =>
      retention.keep({ dtype: "float32", shape: [1], bytes: new Uint8Array(Float32Array.of(at).buffer) }),
    );
    for (const one of kept) locker.lock({ session: session as SessionId, vnode: "a" as VNodeId }, one, retention);
    for (const one of kept) retention.release(one);
  };
  const settled = () => new Promise((resolve) => setTimeout(resolve, 20));
  return { locker, retention, lock, settled, stored, order, asked };
}

it("asks for leave to store an interval's messages in few questions, and lets each go once it is stored", async () => {
  const { locker, retention, lock, settled, stored, asked } = opened();
  lock("one", 200);
  lock("two", 30);
  assert.ok(retention.bytes > 0, "what is not stored yet is held");
  await settled();
  assert.equal(stored.size, 200, "both sessions have sent the same contents");
  assert.ok(locker.bytes > 4 * 230);
  assert.equal(retention.bytes, 0);
  assert.ok(asked.length <= 8, `${asked.length} questions`);
  assert.equal(
    asked.reduce((sum, count) => sum + count),
    230,
  );
});

it("goes on message by message where leave for all is refused", async () => {
  const { retention, lock, settled, stored, asked } = opened({ refusesGroups: true });
  lock("one", 20);
  await settled();
  assert.equal(stored.size, 20);
  assert.equal(retention.bytes, 0);
  assert.equal(asked.filter((count) => count === 1).length, 20);
});

it("one that cannot be stored holds up none of those that leave was asked for with it", async () => {
  const { locker, lock, settled, stored } = opened({ stuck: 5 });
  lock("one", 20);
  await settled();
  assert.equal(stored.size, 19);
  assert.ok(locker.bytes > 4 * 19);
});

/** Such a store, reached without addresses, and how many uploads were under way at most. */
function inStore(states: BlobStore["states"]) {
  let underWay = 0;
  const seen = { most: 0 };
  const storing = ({ hash, bytes }: MovedBlob) => {
    return async (read: () => Promise<Uint8Array>) => {
      await states.grant("upload", hash, bytes, 60_000);
      seen.most = Math.max(seen.most, ++underWay);
      await states.put(hash, await read(), bytes);
      underWay -= 1;
    };
  };
  const blobs = {
    grantLists: async (_: string, wanted: readonly MovedBlob[]) => wanted.map(storing),
    storeList: async (_: string, hash: Sha256, content: Uint8Array) =>
      storing({ hash, bytes: content.byteLength })(async () => content),
  } as unknown as BlobClient;
  return { blobs, seen };
}

it("stores messages that are larger than a state's parts, one at a time", async () => {
  const { states } = openMemoryBlobs();
  const { blobs, seen } = inStore(states);
  const tasks = new Tasks(silentLog);
  const locker = new Locker({ world, tasks, timings: timingsDefault, blobs, signal });
  const retention = new Retention({ memoryBytesMax: 128 << 20, diskBytesMax: 0, tasks, onFull: () => {} });
  const names: Sha256[] = [];
  for (let at = 0; at < 3; at++) {
    const tensor = { dtype: "float32", shape: [17 << 18], bytes: new Uint8Array(17 << 20).fill(at) } as const;
    names.push(hashOfContent(tensor));
    const kept = retention.keep(tensor);
    locker.lock({ session: "s" as SessionId, vnode: "a" as VNodeId }, kept, retention);
    retention.release(kept);
  }
  while (retention.bytes > 0) await new Promise((resolve) => setImmediate(resolve));
  assert.ok(17 << 20 > statePartBytes);
  for (const name of names) assert.ok(((await states.size(name)) ?? 0) > 17 << 20);
  assert.equal(seen.most, 1);
});

it("stores in the order in which messages came, whichever sessions they are of", async () => {
  const { lock, settled, order } = opened();
  lock("one", 10);
  lock("two", 10);
  lock("three", 1);
  lock("one", 100);
  lock("two", 100);
  await settled();
  assert.equal(order.length, 221);
  assert.ok(order.indexOf("three") <= 22, `it was number ${order.indexOf("three")}`);
});
