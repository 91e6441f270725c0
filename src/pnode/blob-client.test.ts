import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Bandwidth } from "../core/bandwidth.ts";
import { DcnrError, hasCode } from "../core/errors.ts";
import { digestHere, sha256 } from "../core/hash.ts";
import type { Sha256 } from "../core/ids.ts";
import { float32, type Tensor } from "../core/tensor.ts";
import type { World } from "../core/world.ts";
import { silentLog } from "../core/world.ts";
import { writeStateManifest } from "../states/manifest.ts";
import { BlobClient } from "./blob-client.ts";
import { BlobOrigins } from "./blob-origins.ts";
import { type BlobCache, type BlobTransfer, type SpillStorage, timingsDefault } from "./options.ts";
import type { Orchestrators } from "./orchestrators.ts";
import { takeSnapshot } from "./snapshots.ts";

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
const origin = "http://blobs.example:7700";

interface Named {
  readonly hash: string;
  readonly bytes: bigint;
}

interface Stage {
  readonly cache?: BlobCache;
  readonly bytesSaid?: number;
  /** The orchestrator's build grants one blob at a time. */
  readonly isOld?: boolean;
}

/** An orchestrator and a blob store that do what they should, and a line that does what the test says. */
function stage({ cache, bytesSaid, isOld = false }: Stage = {}) {
  const stored = new Map<string, Uint8Array>();
  const sent: string[] = [];
  /** Who was called for blobs. */
  const hosts = new Set<string>();
  const line: { upload: (count: number) => void; download: (into: Uint8Array) => void; url: string } = {
    upload: () => {},
    download: () => {},
    url: origin,
  };
  /** How many blobs each question named. */
  const asked: number[] = [];
  const grantOf = ({ hash, bytes }: Named, action: number) => {
    const known = stored.get(hash);
    const grant = { url: `${line.url}/${hash}`, headers: {}, bytes: BigInt(bytesSaid ?? known?.byteLength ?? 0) };
    if (action === 2) return { ...grant, present: known !== undefined };
    return known?.byteLength === Number(bytes) ? { present: true } : grant;
  };
  const orchestrators = {
    current: "elsewhere.example:7700",
    ask: async (_: unknown, { action, more = [], ...first }: Named & { action: number; more?: Named[] }) => {
      asked.push(1 + more.length);
      if (isOld && action === 2 && more.length > 0) throw new DcnrError("invalid_argument", "for uploads only");
      const others = isOld ? [] : more.map((blob) => grantOf(blob, action));
      return { answer: { ...grantOf(first, action), more: others }, address: "granter.example:7700" };
    },
  } as unknown as Orchestrators;
  const nameOf = (url: string) => url.slice(url.lastIndexOf("/") + 1);
  const transfer: BlobTransfer = {
    upload: async ({ url }, content) => {
      sent.push(nameOf(url));
      hosts.add(new URL(url).host);
      line.upload(sent.length);
      stored.set(nameOf(url), new Uint8Array(content));
    },
    download: async ({ url }, into) => {
      hosts.add(new URL(url).host);
      into.set((stored.get(nameOf(url)) ?? new Uint8Array()).subarray(0, into.byteLength));
      line.download(into);
    },
  };
  const origins = new BlobOrigins(() => ["blobs.example:7700"]);
  const bandwidth = { take: async () => {} } as unknown as Bandwidth;
  const client = new BlobClient({
    ...{ orchestrators, transfer, origins, bandwidth, digest: digestHere, world, timings: timingsDefault },
    ...(cache ? { cache } : {}),
  });
  return { client, stored, sent, line, hosts, asked };
}

const weights = float32(
  [40],
  Array.from({ length: 40 }, (_, i) => i),
);
const image = (first = 0) => {
  const data = (weights.data as Float32Array).slice();
  data[0] = first;
  const tensors = new Map<string, Tensor>([["w", { ...weights, data }]]);
  return { metadata: { vnode: "v", step: "1" }, tensors };
};
const options = { world, digest: digestHere, partBytes: 16, name: "s" };
const snapshotOf = (first = 0) => takeSnapshot(image(first), { ...options, copyBytesMax: 1e9 });

describe("a state on its way to the store", () => {
  it("goes on after a failure: what is stored is not sent again", async () => {
    const { client, sent, line } = stage();
    line.upload = (count) => {
      if (count === 6) throw new DcnrError("unavailable", "the line broke");
    };
    const snapshot = snapshotOf();
    await assert.rejects(client.storeState("s", snapshot, signal), (error: unknown) => hasCode(error, "unavailable"));
    await client.storeState("s", snapshot, signal);
    const twice = sent.filter((hash, index) => sent.indexOf(hash) !== index);
    assert.equal(twice.length, 1, "the part that broke off");
    assert.equal(new Set(sent).size, 10 + 1, "ten parts and the manifest");
    assert.equal(sent.at(-1), sha256(writeStateManifest(await snapshot.manifest())), "which comes last");
  });

  it("asks one question for all its parts and the manifest, and one by one where an older build answers", async () => {
    const { client, asked, sent } = stage();
    await client.storeState("s", snapshotOf(), signal);
    assert.deepEqual(asked, [10 + 1]);
    const old = stage({ isOld: true });
    await old.client.storeState("s", snapshotOf(), signal);
    assert.deepEqual(old.asked, [10 + 1, ...Array.from({ length: 10 }, () => 1)]);
    assert.deepEqual(old.sent, sent);
  });

  it("moves at the orchestrator that granted it, whoever is asked next: clocks differ", async () => {
    const { client, line, hosts } = stage();
    line.url = "/blobs/states";
    const state = await client.storeState("s", snapshotOf(), signal);
    await client.openState("s", state, "the state", signal);
    assert.deepEqual([...hosts], ["granter.example:7700"]);
  });

  it("shares its unchanged parts with the one before", async () => {
    const { client, sent } = stage();
    await client.storeState("s", snapshotOf(1), signal);
    sent.length = 0;
    await client.storeState("s", snapshotOf(2), signal);
    assert.equal(sent.length, 2, "one part and the manifest");
  });

  it("is tried again, not given up, when the store is full or finds it damaged", async () => {
    for (const code of ["resource_exhausted", "data_loss"] as const) {
      const { client, line } = stage();
      line.upload = () => {
        throw new DcnrError(code, "no");
      };
      const passes = (error: unknown) => error instanceof DcnrError && error.outlook === "passing";
      await assert.rejects(client.storeState("s", snapshotOf(), signal), passes);
    }
  });
});

describe("what comes from the store", () => {
  it("is believed only with the right hash: damaged bytes are asked for again, then given up", async () => {
    const { client, line } = stage();
    const state = await client.storeState("s", snapshotOf(), signal);
    let damaged = 2;
    line.download = (into) => {
      if (damaged-- > 0) into[0] = (into[0] as number) ^ 1;
    };
    const reader = await client.openState("s", state, "the state", signal);
    const read = await reader.read([{ name: "w", shape: [40] }]);
    assert.deepEqual(read.get("w")?.data, weights.data);
    damaged = Number.POSITIVE_INFINITY;
    await assert.rejects(client.openState("s", state, "it", signal), (error: unknown) => hasCode(error, "data_loss"));
  });

  it("is asked for as long as the failure says that it passes, and once if it says that it does not", async () => {
    const { client, line, stored } = stage();
    stored.set(sha256("x"), new TextEncoder().encode("x"));
    let asked = 0;
    line.download = () => {
      if (++asked <= 9) throw new DcnrError("unavailable", "the store starts");
    };
    assert.equal((await client.fetch("s", sha256("x"), signal)).byteLength, 1);
    assert.equal(asked, 10);
    for (const code of ["not_found", "permission_denied", "resource_exhausted"] as const) {
      asked = 0;
      line.download = () => {
        asked++;
        throw new DcnrError(code, "no");
      };
      await assert.rejects(client.fetch("s", sha256("x"), signal), (error: unknown) => hasCode(error, code));
      assert.equal(asked, 1, code);
    }
  });

  it("is not taken from a cache whose bytes have another hash", async () => {
    const good = new TextEncoder().encode("a shard");
    const hash = sha256(good);
    const kept = new Map<Sha256, Uint8Array>([[hash, new TextEncoder().encode("a shrad")]]);
    const cache: BlobCache = {
      get: async (name) => kept.get(name),
      put: async (name, content) => void kept.set(name, content),
    };
    const { client, stored } = stage({ cache });
    stored.set(hash, good);
    assert.deepEqual(await client.fetch("s", hash, signal), good);
    assert.deepEqual(kept.get(hash), good, "and the cache is mended");
    stored.clear();
    assert.deepEqual(await client.fetch("s", hash, signal), good, "from now on it is enough");
  });

  it("is refused before memory is spent when it is larger than anything can be", async () => {
    const { client } = stage({ bytesSaid: 2 ** 25 });
    const tooMuch = (error: unknown) => hasCode(error, "resource_exhausted");
    await assert.rejects(client.fetch("s", sha256("x"), signal), tooMuch);
  });

  it("is not even begun when it has another size than the manifest that names it says", async () => {
    const { client, line, stored } = stage();
    stored.set(sha256("x"), new TextEncoder().encode("x"));
    line.download = () => assert.fail("it was called");
    const another = (error: unknown) => hasCode(error, "data_loss");
    await assert.rejects(client.fetch("s", sha256("x"), signal, 2), another);
    line.download = () => {};
    assert.equal((await client.fetch("s", sha256("x"), signal, 1)).byteLength, 1);
  });

  it("comes by leave that was asked for with its neighbours, and alone where that failed, ran out, or an older build answers", async () => {
    const contents = Array.from({ length: 100 }, (_, at) => new TextEncoder().encode(`message ${at}`));
    const hashes = contents.map((content) => sha256(content));
    for (const isOld of [false, true]) {
      const { client, line, stored, asked } = stage({ isOld });
      for (const [at, content] of contents.entries()) stored.set(hashes[at] as string, content);
      const fetch = client.openLists("s", hashes, 1_000, signal);
      for (const [at, content] of contents.entries()) assert.deepEqual(await fetch(at), content);
      assert.deepEqual(asked.slice(0, 2), isOld ? [64, 1] : [64, 36]);
      assert.equal(asked.length, isOld ? 102 : 2);
      let calls = 0;
      line.download = () => {
        if (++calls === 1) throw new DcnrError("permission_denied", "the address has ended");
      };
      assert.deepEqual(await client.openLists("s", hashes.slice(0, 2), 1_000, signal)(1), contents[1]);
      assert.equal(asked.at(-1), 1);
    }
    const { client } = stage({ bytesSaid: 2_000 });
    const tooMuch = (error: unknown) => hasCode(error, "resource_exhausted");
    await assert.rejects(client.openLists("s", [sha256("x")], 1_000, signal)(0), tooMuch);
  });

  it("is never asked for at an address that nobody vouches for", async () => {
    const { client, line, stored } = stage();
    stored.set(sha256("x"), new TextEncoder().encode("x"));
    line.url = "http://169.254.169.254";
    line.download = () => assert.fail("it was called");
    const denied = (error: unknown) => hasCode(error, "permission_denied");
    await assert.rejects(client.fetch("s", sha256("x"), signal), denied);
    line.upload = () => assert.fail("it was called");
    await assert.rejects(client.storeState("s", snapshotOf(), signal), denied);
  });
});

describe("blob origins", () => {
  const check = (given: string, told: string[], url: string, headers: Record<string, string> = {}) => {
    const origins = new BlobOrigins(() => [given]);
    origins.learn(told);
    origins.check({ url, headers });
  };
  const denied = (run: () => void) => assert.throws(run, (error: unknown) => hasCode(error, "permission_denied"));

  it("are the orchestrators' and those told at registration", () => {
    check("dcnr.example:7700", [], "http://dcnr.example:7700/blobs/states/x?token=1");
    check("dcnr.example:7700", ["https://bucket.s3.example"], "https://bucket.s3.example/x");
    check("127.0.0.1:7700", ["http://127.0.0.1:9000"], "http://127.0.0.1:9000/x");
    check("192.168.1.5:7700", ["http://192.168.1.9:9000"], "http://192.168.1.9:9000/x");
    denied(() => check("dcnr.example:7700", ["https://bucket.s3.example"], "https://other.s3.example/x"));
    denied(() => check("dcnr.example:7700", ["https://bucket.s3.example"], "http://bucket.s3.example/x"));
    denied(() => check("dcnr.example:7700", [], "http://user:pass@dcnr.example:7700/x"));
    denied(() => check("dcnr.example:7700", [], "file:///etc/passwd"));
    denied(() => check("dcnr.example:7700", [], "no address"));
  });

  it("take a certificate of the web beside the key only where a proxy may end TLS", () => {
    const key = "rwvx4qxcf2qkn5m5k5mmsyzy2fvgfjp6hcmtqgqj3wq6v5s7r2fa";
    const at = (address: string) =>
      new BlobOrigins(() => []).place({ url: "/blobs/states/x?token=1", headers: { cookie: "1" } }, address);
    const url = "https://dcnr.example:443/blobs/states/x?token=1";
    assert.deepEqual(at(`dcnr.example:443#${key}`), { url, key, headers: {} });
    assert.deepEqual(at(`wss://dcnr.example#${key}`), { url, key, orWeb: true, headers: {} });
  });

  it("are fixed by the first registration: later ones may name other places of the web alone", () => {
    const origins = new BlobOrigins(() => ["dcnr.example:7700"]);
    origins.learn(["http://store.example:9000"]);
    origins.learn(["http://nas.example:5000", "https://bucket.s3.example"]);
    const call = (url: string) => origins.check({ url, headers: {} });
    call("http://store.example:9000/x");
    call("https://bucket.s3.example/x");
    denied(() => call("http://nas.example:5000/x"));
  });

  it("come with no headers but a store's own", () => {
    const url = "http://dcnr.example:7700/x";
    check("dcnr.example:7700", [], url, { "Content-Length": "5", "x-amz-checksum-sha256": "a" });
    for (const header of ["authorization", "cookie", "Metadata-Flavor", "x-forwarded-for"])
      denied(() => check("dcnr.example:7700", [], url, { [header]: "1" }));
  });
});

describe("a snapshot", () => {
  const disk = (): SpillStorage & { files: Map<string, Uint8Array> } => {
    const files = new Map<string, Uint8Array>();
    return {
      files,
      write: async (key, content) => void files.set(key, content.slice()),
      read: async (key, room) => {
        const content = files.get(key)!;
        room?.set(content);
        return room ?? content;
      },
      remove: async (key) => void files.delete(key),
    };
  };
  const content = async (snapshot: ReturnType<typeof takeSnapshot>) => {
    const { parts } = await snapshot.manifest();
    const all: number[] = [];
    for (const index of parts.keys()) all.push(...(await snapshot.part(index, (bytes) => new Uint8Array(bytes))));
    return sha256(Uint8Array.from(all));
  };

  it("is the state of its moment, whether copied, cut on disk, or in memory for want of a disk", async () => {
    const full = { ...disk(), write: async () => Promise.reject(new Error("ENOSPC")) };
    const names = new Set<string>();
    for (const how of [
      { copyBytesMax: 1e9 },
      { copyBytesMax: 0, storage: disk() },
      { copyBytesMax: 0 },
      { copyBytesMax: 0, storage: full },
    ]) {
      const live = image(5);
      const snapshot = takeSnapshot(live, { ...options, ...how });
      await snapshot.taken;
      (live.tensors.get("w")!.data as Float32Array).fill(9);
      names.add(await content(snapshot));
      await snapshot.release();
    }
    assert.equal(names.size, 1);
  });

  it("leaves nothing on the disk", async () => {
    const storage = disk();
    const snapshot = takeSnapshot(image(), { ...options, copyBytesMax: 0, storage });
    await snapshot.manifest();
    assert.equal(storage.files.size, 10);
    await snapshot.release();
    assert.equal(storage.files.size, 0);
  });
});
