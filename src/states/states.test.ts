import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "../core/errors.ts";
import { canonicalJson, sha256 } from "../core/hash.ts";
import type { Sha256 } from "../core/ids.ts";
import { bytesOf, float32, type Tensor } from "../core/tensor.ts";
import { memoryState } from "./in-memory.ts";
import { inLanes } from "./lanes.ts";
import { readStateManifest, writeStateManifest } from "./manifest.ts";
import { StateReader } from "./reader.ts";

const numbers = (count: number, from: number) => Array.from({ length: count }, (_, i) => from + i / 8);
const tensors = new Map<string, Tensor>([
  ["a", float32([2, 3], numbers(6, 1))],
  ["empty", float32([0, 4], [])],
  ["b", float32([37], numbers(37, 100))],
  ["c", float32([1], [-0])],
]);
const image = { metadata: { vnode: "v", step: "7" }, tensors };
const wanted = (...names: string[]) => names.map((name) => ({ name, shape: tensors.get(name)!.shape }));

describe("a state", () => {
  it("is refused by a sentence where its manifest has an object in place of a number or a text", async () => {
    const { manifest } = await memoryState(image, 64);
    const odd = { toString: 1 };
    for (const spoiled of [{ bytes: odd }, { format: odd }, { parts: [odd, odd, odd] }, { metadata: { vnode: odd } }])
      assert.throws(
        () =>
          readStateManifest(
            new TextEncoder().encode(JSON.stringify({ format: "dcnr-state-1", ...manifest, ...spoiled })),
            "it",
          ),
        (error) => hasCode(error, "data_loss") || hasCode(error, "invalid_argument"),
        JSON.stringify(spoiled),
      );
  });

  it("comes back bit for bit, wherever it is cut", async () => {
    for (const partBytes of [1, 3, 4, 64, 176, 1000]) {
      const { reader, manifest, blobs } = await memoryState(image, partBytes);
      assert.equal(manifest.bytes, 176);
      assert.equal(manifest.parts.length, Math.ceil(176 / partBytes));
      for (const [hash, content] of blobs) assert.equal(sha256(content), hash);
      const read = await reader.read(wanted("a", "empty", "b", "c"));
      for (const [name, tensor] of tensors) assert.deepEqual(bytesOf(read.get(name)!), bytesOf(tensor), name);
    }
  });

  it("is cut alike from shared memory", async () => {
    const shared = (tensor: Tensor): Tensor => {
      const data = new Float32Array(new SharedArrayBuffer(tensor.data.byteLength));
      data.set(tensor.data as Float32Array);
      return { ...tensor, data };
    };
    const copy = new Map(Array.from(tensors, ([name, tensor]) => [name, shared(tensor)]));
    assert.equal((await memoryState({ ...image, tensors: copy })).state, (await memoryState(image)).state);
  });

  it("of another step shares all its parts", async () => {
    const [one, other] = [await memoryState(image), await memoryState({ ...image, metadata: { step: "1000000" } })];
    assert.notEqual(one.state, other.state);
    assert.deepEqual(one.manifest.parts, other.manifest.parts);
  });

  it("is fetched only where it is wanted", async () => {
    const { manifest, blobs } = await memoryState(image, 16);
    const fetched: Sha256[] = [];
    const fetchPart = async (hash: Sha256, into: Uint8Array) => {
      fetched.push(hash);
      into.set(blobs.get(hash)!);
    };
    const reader = new StateReader({ manifest, fetchPart, clock: { monotonicMs: () => 0 }, what: "it" });
    await reader.read(wanted("a"));
    assert.deepEqual(fetched, manifest.parts.slice(0, 2));
    fetched.length = 0;
    await reader.read(wanted("empty"));
    assert.deepEqual(fetched, []);
  });

  it("without a wanted tensor, or with one of another shape, is refused before anything is fetched", async () => {
    const { manifest } = await memoryState(image);
    const fetchPart = () => assert.fail("it was fetched");
    const reader = new StateReader({ manifest, fetchPart, clock: { monotonicMs: () => 0 }, what: "the state" });
    for (const one of [
      { name: "d", shape: [1] },
      { name: "a", shape: [3, 2] },
    ])
      await assert.rejects(reader.read([one]), (error: unknown) => hasCode(error, "data_loss"));
  });
});

describe("a manifest", () => {
  it("gives back what was written", async () => {
    const { manifest } = await memoryState(image);
    assert.deepEqual(readStateManifest(writeStateManifest(manifest), "it"), manifest);
  });

  it("is refused when it claims what cannot be, before memory is spent on it", async () => {
    const { manifest } = await memoryState(image);
    const good = { format: "dcnr-state-1", ...manifest };
    const text = (value: unknown) => new TextEncoder().encode(canonicalJson(value));
    assert.equal(readStateManifest(text(good), "it").bytes, 176);
    const [first] = manifest.tensors;
    const wrong: unknown[] = [
      [],
      { ...good, format: "dcnr-state-9" },
      { ...good, bytes: 175 },
      { ...good, bytes: -1 },
      { ...good, bytes: 2 ** 50 },
      { ...good, partBytes: 0 },
      { ...good, partBytes: 2 ** 30 },
      { ...good, parts: manifest.parts.slice(1) },
      { ...good, parts: manifest.parts.map(() => "../../etc/passwd") },
      { ...good, tensors: manifest.tensors.slice(1) },
      { ...good, tensors: [first, ...manifest.tensors] },
      { ...good, tensors: [{ ...first, shape: [1e9, 1e9, 1e9] }] },
      { ...good, tensors: [{ ...first, shape: [-2, -3] }] },
      { ...good, tensors: [{ ...first, dtype: "float7" }] },
      { ...good, tensors: "all" },
    ];
    for (const value of wrong) {
      const refused = (error: unknown) => hasCode(error, "data_loss") || hasCode(error, "invalid_argument");
      assert.throws(() => readStateManifest(text(value), "it"), refused, canonicalJson(value).slice(0, 80));
    }
  });
});

describe("parts that move", () => {
  const most = async (tookMs: number) => {
    let [nowMs, running, highest] = [0, 0, 0];
    await inLanes(numbers(12, 0), { monotonicMs: () => nowMs }, async () => {
      highest = Math.max(highest, ++running);
      await Promise.resolve();
      nowMs += tookMs;
      running--;
    });
    return highest;
  };

  it("go one at a time over a slow line, and side by side over a quick one", async () => {
    assert.equal(await most(20_000), 1);
    assert.equal(await most(10), 2);
  });

  it("stop with the first failure, after those under way", async () => {
    const begun: number[] = [];
    const moving = inLanes([1, 2, 3, 4, 5, 6, 7, 8], { monotonicMs: () => 0 }, async (part) => {
      begun.push(part);
      if (part === 3) throw new Error("the line broke");
    });
    await assert.rejects(moving, /the line broke/);
    assert.ok(begun.length < 8);
  });
});
