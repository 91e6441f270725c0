import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { asideHere } from "../core/aside.ts";
import { sha256 } from "../core/hash.ts";
import { silentLog, type World } from "../core/world.ts";
import { openMemoryBlobs, openMemoryStore } from "../store/memory.ts";
import { openBatches } from "./batches.ts";
import { loadTokenizer, tokenizerJson } from "./bpe/json.ts";
import { trainBpe } from "./bpe/train.ts";
import { buildTensors, buildText } from "./build.ts";
import { openDatasets, samplesOfSplit } from "./datasets.ts";
import { readSplit, textOfDocument } from "./documents.ts";
import { buildMobyDick, buildMobyDickTokens, readMobyDick } from "./imports/moby-dick.ts";
import type { SplitRule } from "./manifest.ts";
import { showSamples } from "./show.ts";
import { openVocabularies } from "./vocabularies.ts";

const world: World = {
  clock: { wallMs: () => 1_000, monotonicMs: () => 0 },
  timers: {
    after: (_, callback) => {
      queueMicrotask(callback);
      return () => {};
    },
  },
  chance: { bytes: (count) => new Uint8Array(count), uniform: () => 0.5 },
  log: silentLog,
};

function network(usedBy: string[] = []) {
  const blobs = openMemoryBlobs().datasets;
  const datasets = openDatasets({ store: openMemoryStore(), blobs, world, usedBy: () => usedBy });
  return { blobs, datasets };
}

async function blobCount(blobs: ReturnType<typeof openMemoryBlobs>["datasets"]): Promise<number> {
  return (await Array.fromAsync(blobs.list())).length;
}

async function numbers({ blobs }: ReturnType<typeof network>, values: readonly number[]) {
  const builder = buildTensors([{ name: "inputs", dtype: "float32", shape: [] }], { blobs, shardBytes: 16 });
  for (const value of values) await builder.add({ inputs: Float32Array.of(value) });
  return builder.finish();
}

async function documents({ blobs }: ReturnType<typeof network>, texts: readonly string[]) {
  const builder = buildText(false, { blobs, shardBytes: 64 });
  for (const text of texts) await builder.add(new TextEncoder().encode(text));
  return builder.finish();
}

describe("datasets of a network", () => {
  it("are added, listed, shown and removed", async () => {
    const net = network();
    const record = await net.datasets.add("numbers", await numbers(net, [5, 6, 7, 8, 9]));
    assert.equal(record.samples, 5);
    assert.deepEqual(
      (await Array.fromAsync(net.datasets.list())).map((one) => one.name),
      ["numbers"],
    );
    const shown = await net.datasets.show("numbers", { start: 3, count: 10 });
    assert.deepEqual(
      shown.map((one) => [one.index, one.fields["inputs"]?.data[0]]),
      [
        [3, 8],
        [4, 9],
      ],
    );
    await net.datasets.remove("numbers");
    assert.deepEqual(await Array.fromAsync(net.datasets.list()), []);
    assert.equal(await blobCount(net.blobs), 0);
    await assert.rejects(net.datasets.get("numbers"), { code: "not_found", message: /dcnr dataset list/ });
  });

  it("may be added twice, but not under a name that is taken", async () => {
    const net = network();
    const first = await net.datasets.add("x", await numbers(net, [1]));
    assert.deepEqual(await net.datasets.add("x", await numbers(net, [1])), first);
    await assert.rejects(net.datasets.add("x", await numbers(net, [2])), { code: "already_exists" });
    await assert.rejects(net.datasets.add("../x", await numbers(net, [1])), /may only use/);
  });

  it("keep shards that another dataset has", async () => {
    const net = network();
    await net.datasets.add("one", await numbers(net, [1, 2, 3, 4, 5]));
    await net.datasets.split("one", "two", { by: "tail", share: 0.4 });
    await net.datasets.remove("one");
    assert.equal((await net.datasets.show("two", { start: 0, count: 9 })).length, 5);
    await net.datasets.remove("two");
    assert.equal(await blobCount(net.blobs), 0);
  });

  it("are not removed while a session uses them, and not added without their shards", async () => {
    const net = network(["tiny-123"]);
    const manifest = await numbers(net, [1]);
    await net.datasets.add("x", manifest);
    await assert.rejects(net.datasets.remove("x"), { code: "failed_precondition", message: /in use by tiny-123/ });
    await assert.rejects(network().datasets.add("x", manifest), {
      code: "failed_precondition",
      message: /upload it first/,
    });
  });
});

describe("splitting", () => {
  it("by hash puts equal samples on the same side, and never moves a sample when others come", async () => {
    const net = network();
    const values = Array.from({ length: 300 }, (_, i) => i % 150);
    const sidesOf = async (name: string, content: readonly number[]) => {
      await net.datasets.add(name, await numbers(net, content));
      await net.datasets.split(name, `${name}-split`, { by: "hash", share: 0.3 });
      const { manifest } = await net.datasets.get(`${name}-split`);
      const sides = new Map<number, Set<string>>();
      for (const split of ["train", "validation"]) {
        const samples = samplesOfSplit(manifest, split);
        const batches = openBatches({
          manifest,
          fetchBlob: (hash) => net.blobs.get(hash),
          cacheBytesMax: 1 << 20,
          seed: 1,
          split,
          validationSplit: "",
          batch: samples,
          microbatches: 1,
        });
        for (const value of (await batches.field("inputs", { step: 0, micro: 0, mode: "train" })).data as Float32Array)
          sides.set(value, (sides.get(value) ?? new Set()).add(split));
      }
      return sides;
    };
    const sides = await sidesOf("a", values);
    assert.equal(sides.size, 150);
    for (const side of sides.values()) assert.equal(side.size, 1);
    const validating = [...sides.values()].filter((side) => side.has("validation")).length;
    assert.ok(validating > 25 && validating < 65, `${validating} of 150 validate`);
    const more = await sidesOf("b", [...values, 1000, 2000, 3000]);
    for (const [value, side] of sides) assert.deepEqual(more.get(value), side);
  });

  it("is refused when a part would be empty or the share is none", async () => {
    const net = network();
    await net.datasets.add("x", await numbers(net, [1, 2]));
    await assert.rejects(net.datasets.split("x", "y", { by: "tail", share: 0.01 }), /empty/);
    await assert.rejects(net.datasets.split("x", "y", { by: "tail", share: 1.5 }), /impossible/);
    await assert.rejects(
      net.datasets.split("x", "y", { by: "tail", share: 0.5, trainName: "v", validationName: "v" }),
      /two names/,
    );
  });
});

describe("tokenising", () => {
  it("turns documents into tokens that decode to them, split by split, with an end behind each", async () => {
    const net = network();
    const texts = Array.from({ length: 60 }, (_, i) => `document ${i} says ünïcödé <|endoftext|>`);
    await net.datasets.add("texts", await documents(net, texts));
    await net.datasets.split("texts", "split", { by: "hash", share: 0.3 });
    const vocabulary = tokenizerJson(await trainBpe(texts, { vocabularySize: 300, specials: ["<|endoftext|>"] }));
    await net.datasets.tokenise("split", "tokens", vocabulary);
    const { manifest } = await net.datasets.get("tokens");
    assert.ok(manifest.kind === "tokens");
    const tokenizer = loadTokenizer(vocabulary);
    const stream = (await Promise.all(manifest.shards.map((shard) => net.blobs.get(shard.hash)))).flatMap((content) => [
      ...new Uint16Array(content.slice().buffer),
    ]);
    assert.equal(stream.filter((token) => token === 0).length, 60);
    const source = (await net.datasets.get("split")).manifest;
    assert.ok(source.kind === "text");
    for (const name of ["train", "validation"]) {
      const rule: SplitRule | undefined = manifest.splits[name];
      assert.ok(rule?.kind === "range");
      let expected = "";
      for await (const document of readSplit(source, name, (hash) => net.blobs.get(hash)))
        expected += `${textOfDocument(document)}<|endoftext|>`;
      assert.equal(tokenizer.decode(stream.slice(rule.start, rule.end)), expected);
    }
    const [sample] = await net.datasets.show("tokens", { start: 0, count: 1, context: 8 });
    assert.equal(sample?.text, tokenizer.decode(stream.slice(0, 8)));
  });

  it("makes Moby Dick a token stream for the demo", async () => {
    const net = network();
    const text = await buildMobyDick(net.blobs);
    await net.datasets.add("moby-dick", text);
    const chapters: string[] = [];
    for await (const document of readSplit(text, "validation", (hash) => net.blobs.get(hash)))
      chapters.push(textOfDocument(document));
    const vocabulary = tokenizerJson(await trainBpe(chapters, { vocabularySize: 1000 }));
    const record = await net.datasets.tokenise("moby-dick", "moby-dick-1000", vocabulary);
    assert.ok(record.samples > 300_000 && record.samples < 700_000, `${record.samples} tokens`);
    const { manifest } = await net.datasets.get("moby-dick-1000");
    assert.ok(samplesOfSplit(manifest, "train", 128) > 2000);
  });

  it("gives the demo its tokens in one go: they decode to the book", async () => {
    const { blobs } = network();
    const { manifest, tokenizer } = await buildMobyDickTokens(blobs, 512);
    assert.ok(manifest.vocabulary <= 512);
    const [sample] = await showSamples(manifest, { start: 0, count: 1, context: 64 }, (hash) => blobs.get(hash));
    assert.ok((await readMobyDick()).join("").startsWith(sample!.text));
    assert.equal(loadTokenizer(tokenizer).vocabularySize, manifest.vocabulary);
    assert.ok(samplesOfSplit(manifest, "validation", 64) > 500);
  });

  it("is refused for what is no text", async () => {
    const net = network();
    await net.datasets.add("x", await numbers(net, [1, 2]));
    await assert.rejects(net.datasets.tokenise("x", "y", "{}"), /holds tensors, not text/);
  });
});

describe("vocabularies of a network", () => {
  it("are created from uploaded files, listed and deleted", async () => {
    const blobs = openMemoryBlobs().vocabularies;
    const vocabularies = openVocabularies({ store: openMemoryStore(), blobs, world, aside: asideHere });
    const upload = async (text: string) => {
      const content = new TextEncoder().encode(text);
      await blobs.put(sha256(content), content, content.byteLength);
      return sha256(content);
    };
    const small = await upload(tokenizerJson(await trainBpe(["some text, some text"], { vocabularySize: 260 })));
    const other = await upload(tokenizerJson(await trainBpe(["other, other, other"], { vocabularySize: 260 })));
    const record = await vocabularies.create("small", small);
    assert.equal(record.tokens, 260);
    assert.deepEqual(await vocabularies.create("small", small), record);
    await assert.rejects(vocabularies.create("small", other), { code: "already_exists" });
    await assert.rejects(vocabularies.create("missing", sha256("x")), /upload it first/);
    await assert.rejects(vocabularies.create("broken", await upload("{}")), /model must be a JSON object/);
    assert.deepEqual(
      (await Array.fromAsync(vocabularies.list())).map((one) => one.name),
      ["small"],
    );
    await vocabularies.delete("small");
    await assert.rejects(vocabularies.get("small"), { code: "not_found" });
  });
});
