import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { sha256 } from "../core/hash.ts";
import { checkDatasetFits, type Needs } from "./fits.ts";
import type { Manifest } from "./manifest.ts";

const shard = (count: number, unitBytes: number) => [{ hash: sha256(""), bytes: count * unitBytes, count }];
const images: Manifest = {
  version: 1,
  kind: "tensors",
  samples: 10,
  chunk: 10,
  fields: [
    { name: "inputs", dtype: "uint8", shape: [4], scale: 0.5, shards: shard(10, 4) },
    { name: "labels", dtype: "int64", shape: [], shards: shard(10, 8) },
  ],
  splits: { none: { kind: "range", start: 3, end: 3 }, some: { kind: "list", hash: sha256("x"), count: 2 } },
};
const species: Manifest = {
  ...images,
  fields: [{ name: "labels", dtype: "int32", shape: [], classes: ["a", "b", "c"], shards: shard(10, 4) }],
};
const pair: Needs = { labels: { shape: [], wire: "int32", below: 2 } };
const tokens: Manifest = {
  version: 1,
  kind: "tokens",
  tokens: 100,
  tokenType: "uint16",
  vocabulary: 300,
  shards: shard(100, 2),
  splits: { short: { kind: "range", start: 0, end: 16 } },
};
const text: Manifest = { version: 1, kind: "text", documents: 1, running: true, shards: shard(1, 9), splits: {} };
const classifier: Needs = { inputs: { shape: [4], wire: "float32" }, labels: { shape: [], wire: "int32", below: 10 } };
const language = (context: number, below: number): Needs => ({
  inputs: { shape: [context], wire: "int32", below },
  labels: { shape: [context], wire: "int32", below },
});

describe("a dataset", () => {
  it("fits a network that takes what it has", () => {
    checkDatasetFits(images, ["all", "some"], classifier);
    checkDatasetFits(species, ["all"], { labels: { shape: [], wire: "int32", below: 3 } });
    checkDatasetFits(tokens, ["all"], language(16, 300));
    checkDatasetFits(tokens, ["all"], language(16, 512));
  });

  const wrong: [string, Manifest, readonly string[], Needs, RegExp][] = [
    ["text", text, ["all"], language(16, 300), /tokenise it first/],
    ["a vocabulary that is too large", tokens, ["all"], language(16, 299), /300 tokens, the network takes only 299/],
    ["tokens for a network of floats", tokens, ["all"], classifier, /holds tokens, the network takes float32 \[4\]/],
    ["a stream shorter than a sample", tokens, ["all"], language(100, 300), /100 tokens, fewer than one sample of 100/],
    ["a split shorter than a sample", tokens, ["short"], language(16, 300), /no samples/],
    [
      "another shape",
      images,
      ["all"],
      { inputs: { shape: [5], wire: "float32" } },
      /float32 \[4\], the network needs float32 \[5\]/,
    ],
    [
      "another type",
      images,
      ["all"],
      { labels: { shape: [], wire: "float32" } },
      /int32 \[\], the network needs float32 \[\]/,
    ],
    ["more classes than the network tells apart", species, ["all"], pair, /3 classes, the network tells 2 apart/],
    ["an empty split", images, ["none"], classifier, /no samples/],
    ["an unknown split", images, ["test"], classifier, /no split "test"/],
    ["images for a language model", images, ["all"], language(4, 300), /the network needs int32 \[4\]/],
  ];
  for (const [what, manifest, splits, needs, message] of wrong)
    it(`does not fit with ${what}`, () => {
      assert.throws(() => checkDatasetFits(manifest, splits, needs), { name: "DcnrError", message });
    });

  it("and the network are called by their names when they have some", () => {
    const called = { dataset: "dataset book", network: "network small" };
    assert.throws(
      () => checkDatasetFits(tokens, ["all"], language(16, 299), called),
      /dataset book has a vocabulary of 300 tokens, network small takes only 299/,
    );
  });

  it("without labels does not fit a network that learns from them", () => {
    const unlabelled: Manifest = { ...images, fields: images.fields.slice(0, 1) };
    assert.throws(() => checkDatasetFits(unlabelled, ["all"], classifier), /needs labels, the dataset only has inputs/);
  });
});
