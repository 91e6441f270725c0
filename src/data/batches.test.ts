import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Sha256 } from "../core/ids.ts";
import { type BatchesOptions, openBatches } from "./batches.ts";
import { testBlobs } from "./blobs.testing.ts";
import { buildTensors, buildTokens } from "./build.ts";

const range = (start: number, end: number) => Array.from({ length: end - start }, (_, i) => start + i);
const settings = { cacheBytesMax: 1 << 20, seed: 3, split: "all", validationSplit: "all", batch: 4, microbatches: 2 };

async function numbers(count: number, shardBytes: number) {
  const blobs = testBlobs();
  const fields = [
    { name: "inputs", dtype: "float32", shape: [2] },
    { name: "labels", dtype: "int32", shape: [] },
  ] as const;
  const builder = buildTensors(fields, { blobs, shardBytes });
  for (const i of range(0, count)) await builder.add({ inputs: Float32Array.of(i, -i), labels: Int32Array.of(i * 10) });
  const manifest = await builder.finish();
  blobs.gets.length = 0;
  const open = (more: Partial<BatchesOptions> = {}) =>
    openBatches({ ...settings, manifest, fetchBlob: (hash) => blobs.get(hash), ...more });
  return { blobs, manifest, open };
}

describe("batches of a tensor dataset", () => {
  it("hold inputs and labels of the same samples, in the order of the step", async () => {
    const { open } = await numbers(50, 64);
    const batches = open();
    for (const step of range(0, 30))
      for (const micro of [0, 1]) {
        const request = { step, micro, mode: "train" } as const;
        const { inputs, labels } = await batches.batch(request);
        const indices = await batches.indices(request);
        assert.deepEqual(inputs.shape, [2, 2]);
        assert.deepEqual(
          [...inputs.data],
          indices.flatMap((i) => [i, -i]),
        );
        assert.deepEqual(
          [...labels.data],
          indices.map((i) => i * 10),
        );
        assert.deepEqual(labels.shape, [2]);
      }
  });

  it("use every sample once an epoch over all microbatches", async () => {
    const { open } = await numbers(48, 64);
    const batches = open();
    const seen: number[] = [];
    for (const step of range(0, 12))
      for (const micro of [0, 1])
        seen.push(...((await batches.batch({ step, micro, mode: "train" })).labels.data as Int32Array));
    assert.deepEqual(
      seen.sort((a, b) => a - b),
      range(0, 48).map((i) => i * 10),
    );
  });

  it("are the same for validation at every step", async () => {
    const { open } = await numbers(10, 64);
    const batches = open({ microbatches: 1, batch: 4 });
    const labels = async (step: number, micro: number) => [
      ...(await batches.field("labels", { step, micro, mode: "evaluate" })).data,
    ];
    assert.deepEqual(await labels(0, 0), [0, 10, 20, 30]);
    assert.deepEqual(await labels(99, 0), [0, 10, 20, 30]);
    assert.deepEqual(await labels(99, 2), [80, 90, 0, 10]);
  });

  it("fetch no inputs for whoever needs labels only", async () => {
    const { open, blobs, manifest } = await numbers(100, 80);
    await open().field("labels", { step: 0, micro: 0, mode: "train" });
    const inputs = new Set(manifest.fields[0]?.shards.map((shard) => shard.hash));
    assert.ok(blobs.gets.length > 0);
    assert.ok(blobs.gets.every((hash) => !inputs.has(hash)));
  });

  it("fetch a shard once while it fits the cache, and give the same values when it does not", async () => {
    const { open, blobs, manifest } = await numbers(64, 64);
    const roomy = open();
    const tight = open({ cacheBytesMax: 64 });
    for (const step of range(0, 32)) {
      const request = { step, micro: 1, mode: "train" } as const;
      assert.deepEqual(await roomy.batch(request), await tight.batch(request));
      assert.ok(tight.cache.bytesHeld <= 64);
    }
    const shards = manifest.fields.flatMap((field) => field.shards).length;
    assert.ok(roomy.cache.fetches <= shards, `${roomy.cache.fetches} fetches of ${shards} shards`);
    assert.ok(tight.cache.fetches > shards);
    assert.equal(new Set(blobs.gets).size <= shards, true);
  });

  it("have the shards of the next steps on their way before they are asked for", async () => {
    const { open, blobs } = await numbers(400, 64);
    const batches = open({ prefetchSteps: 1 });
    await batches.batch({ step: 0, micro: 1, mode: "train" });
    await new Promise((resolve) => setImmediate(resolve));
    const before = blobs.gets.length;
    await batches.batch({ step: 1, micro: 0, mode: "train" });
    assert.equal(blobs.gets.length, before);
  });

  it("put the next microbatch together before it is asked for, and try again what failed then", async () => {
    const { open, blobs } = await numbers(400, 64);
    let reachable = true;
    const fetchBlob = async (hash: Sha256) => {
      if (!reachable) throw new Error("away");
      return blobs.get(hash);
    };
    const batches = open({ fetchBlob });
    const at = (step: number, micro: number) => ({ step, micro, mode: "train" }) as const;
    await batches.field("inputs", at(0, 0));
    await new Promise((resolve) => setImmediate(resolve));
    reachable = false;
    const next = await batches.field("inputs", at(0, 1));
    await new Promise((resolve) => setImmediate(resolve));
    reachable = true;
    const after = await batches.field("inputs", at(1, 0));
    assert.deepEqual([next, after], [await open().field("inputs", at(0, 1)), await open().field("inputs", at(1, 0))]);
  });

  it("ask again for a shard that came damaged, and say so when it stays damaged", async () => {
    const { open, blobs } = await numbers(8, 1000);
    let damaged = 1;
    const flaky = async (hash: Sha256) => {
      const content = (await blobs.get(hash)).slice();
      if (damaged-- > 0) content[3] = (content[3] as number) ^ 1;
      return content;
    };
    const request = { step: 0, micro: 0, mode: "train" } as const;
    assert.deepEqual(await open({ fetchBlob: flaky }).batch(request), await open().batch(request));
    damaged = 1000;
    await assert.rejects(open({ fetchBlob: flaky }).batch(request), { code: "data_loss", message: /checksum/ });
  });

  it("are refused for batches that microbatches cannot share", async () => {
    const { open } = await numbers(8, 1000);
    assert.throws(() => open({ batch: 5 }), /5 samples cannot be cut into 2/);
  });
});

describe("batches of a token stream", () => {
  it("shift the labels by one token, across shards", async () => {
    const blobs = testBlobs();
    const builder = buildTokens(300, { blobs, shardBytes: 32 });
    await builder.add(range(0, 250));
    const manifest = await builder.finish();
    assert.equal(manifest.shards.length, 16);
    const batches = openBatches({ ...settings, manifest, fetchBlob: (hash) => blobs.get(hash), context: 10 });
    for (const step of range(0, 6)) {
      const { inputs, labels } = await batches.batch({ step, micro: 1, mode: "train" });
      assert.deepEqual(inputs.shape, [2, 10]);
      assert.equal(inputs.dtype, "int32");
      assert.deepEqual(
        [...labels.data],
        [...inputs.data].map((token) => Number(token) + 1),
      );
      assert.equal(Number(inputs.data[0]) % 10, 0);
    }
  });

  it("refuse a token outside the vocabulary", async () => {
    const blobs = testBlobs();
    const builder = buildTokens(70_000, { blobs });
    await builder.add([1, 2, 69_999, 3]);
    const manifest = { ...(await builder.finish()), vocabulary: 100 };
    const batches = openBatches({ ...settings, batch: 1, microbatches: 1, manifest, fetchBlob: blobs.get, context: 3 });
    await assert.rejects(batches.batch({ step: 0, micro: 0, mode: "train" }), /token 69999/);
    await assert.rejects(buildTokens(10, { blobs }).add([10]), /token 10 is outside the vocabulary of 10/);
  });
});
