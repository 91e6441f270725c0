import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { sha256 } from "../core/hash.ts";
import { testBlobs } from "./blobs.testing.ts";
import { type BuildCheckpoint, buildTensors, buildText, buildTokens } from "./build.ts";
import { buildMnist } from "./imports/mnist.ts";
import { documentEnd, manifestHash } from "./manifest.ts";

const range = (start: number, end: number) => Array.from({ length: end - start }, (_, i) => start + i);
const fields = [
  { name: "inputs", dtype: "float32", shape: [3] },
  { name: "labels", dtype: "uint8", shape: [] },
] as const;
const sample = (i: number) => ({ inputs: Float32Array.of(i, i + 1, i + 2), labels: Uint8Array.of(i) });

describe("building a tensor dataset", () => {
  it("cuts all fields at the same samples, and its shards hold what was given", async () => {
    const blobs = testBlobs();
    const builder = buildTensors(fields, { blobs, shardBytes: 60 });
    for (const i of range(0, 12)) await builder.add(sample(i));
    const manifest = await builder.finish();
    assert.equal(manifest.samples, 12);
    for (const field of manifest.fields)
      assert.deepEqual(
        field.shards.map((shard) => shard.count),
        [5, 5, 2],
      );
    const inputs = manifest.fields[0]!.shards.flatMap((shard) => [
      ...new Float32Array(blobs.contents.get(shard.hash)!.slice().buffer),
    ]);
    assert.deepEqual(
      inputs,
      range(0, 12).flatMap((i) => [i, i + 1, i + 2]),
    );
    for (const [hash, content] of blobs.contents) assert.equal(sha256(content), hash);
  });

  it("gives the same manifest whether samples come one by one or many at once", async () => {
    const one = buildTensors(fields, { blobs: testBlobs(), shardBytes: 60 });
    for (const i of range(0, 23)) await one.add(sample(i));
    const many = buildTensors(fields, { blobs: testBlobs(), shardBytes: 60 });
    const inputs = Float32Array.from(range(0, 23).flatMap((i) => [i, i + 1, i + 2]));
    await many.add({ inputs, labels: Uint8Array.from(range(0, 23)) });
    assert.equal(manifestHash(await one.finish()), manifestHash(await many.finish()));
  });

  it("goes on from a checkpoint to the same dataset, and stores nothing twice", async () => {
    const blobs = testBlobs();
    let checkpoint: BuildCheckpoint | undefined;
    const first = buildTensors(fields, { blobs, shardBytes: 60, onCheckpoint: (reached) => (checkpoint = reached) });
    for (const i of range(0, 17)) await first.add(sample(i));
    await new Promise((resolve) => setImmediate(resolve));
    assert.ok(checkpoint && checkpoint.units >= 10);
    const resume = JSON.parse(JSON.stringify(checkpoint)) as BuildCheckpoint;
    const second = buildTensors(fields, { blobs, shardBytes: 60, resume });
    for (const i of range(resume.units, 17)) await second.add(sample(i));
    const whole = buildTensors(fields, { blobs, shardBytes: 60 });
    for (const i of range(0, 17)) await whole.add(sample(i));
    assert.equal(manifestHash(await second.finish()), manifestHash(await whole.finish()));
    assert.equal(new Set(blobs.puts).size, blobs.puts.length);
  });

  it("refuses fields of different lengths, missing fields and nothing at all", async () => {
    const builder = buildTensors(fields, { blobs: testBlobs() });
    await assert.rejects(builder.add({ inputs: new Float32Array(6), labels: new Uint8Array(1) }), /differ/);
    await assert.rejects(builder.add({ inputs: new Float32Array(3) }), /no values for the field "labels"/);
    await assert.rejects(builder.add({ inputs: new Float32Array(4), labels: new Uint8Array(1) }), /no whole samples/);
    await assert.rejects(builder.finish(), /no samples/);
  });

  it("fails when a shard cannot be stored", async () => {
    const blobs = { ...testBlobs(), put: async () => Promise.reject(new Error("disk full")) };
    const builder = buildTensors(fields, { blobs, shardBytes: 12 });
    await assert.rejects(async () => {
      for (const i of range(0, 9)) await builder.add(sample(i));
      await builder.finish();
    }, /disk full/);
  });
});

describe("building a text dataset", () => {
  it("ends documents with a byte that text never has, and cuts shards between them", async () => {
    const blobs = testBlobs();
    const builder = buildText(false, { blobs, shardBytes: 16 });
    const documents = ["first", "второй", "", "a third that is longer than a shard"];
    for (const document of documents) await builder.add(new TextEncoder().encode(document));
    const manifest = await builder.finish();
    const contents = manifest.shards.map((shard) => blobs.contents.get(shard.hash)!);
    const read = contents.flatMap((content) => {
      const parts: string[] = [];
      for (let start = 0; start < content.length; ) {
        const end = content.indexOf(documentEnd, start);
        parts.push(new TextDecoder().decode(content.subarray(start, end)));
        start = end + 1;
      }
      return parts;
    });
    assert.deepEqual(read, documents);
    assert.equal(manifest.documents, 4);
  });
});

describe("building a token stream", () => {
  it("takes two bytes a token for small vocabularies and four for large ones", async () => {
    for (const [vocabulary, bytes] of [
      [65_536, 2],
      [65_537, 4],
    ] as const) {
      const builder = buildTokens(vocabulary, { blobs: testBlobs() });
      await builder.add([1, 2, 3]);
      assert.equal((await builder.finish()).shards[0]?.bytes, 3 * bytes);
    }
  });
});

describe("the digits", () => {
  it("are 10,000 images with every digit in both splits", async () => {
    const blobs = testBlobs();
    const manifest = await buildMnist(blobs);
    assert.equal(manifest.samples, 10_000);
    const labels = manifest.fields[1]!.shards.flatMap((shard) => [
      ...new Int32Array(blobs.contents.get(shard.hash)!.slice().buffer),
    ]);
    for (const rule of Object.values(manifest.splits)) {
      assert.ok(rule.kind === "range");
      assert.equal(new Set(labels.slice(rule.start, rule.end)).size, 10);
    }
    const pixels = new Float32Array(blobs.contents.get(manifest.fields[0]!.shards[0]!.hash)!.slice().buffer);
    assert.ok(pixels.every((value) => value >= 0 && value <= 1));
    assert.ok(pixels.some((value) => value > 0.9));
  });
});
