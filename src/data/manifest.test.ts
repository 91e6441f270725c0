import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { sha256 } from "../core/hash.ts";
import { type Manifest, manifestHash, manifestText, parseManifest, type TensorsManifest } from "./manifest.ts";

const shard = (count: number, unitBytes: number) => ({ hash: sha256(`${count}`), bytes: count * unitBytes, count });

const tensors: TensorsManifest = {
  version: 1,
  kind: "tensors",
  samples: 30,
  chunk: 20,
  fields: [
    { name: "inputs", dtype: "float32", shape: [4], shards: [shard(20, 16), shard(10, 16)] },
    { name: "labels", dtype: "int32", shape: [], shards: [shard(20, 4), shard(10, 4)] },
  ],
  splits: { train: { kind: "range", start: 0, end: 25 }, validation: { kind: "range", start: 25, end: 30 } },
};

const tokens: Manifest = {
  version: 1,
  kind: "tokens",
  tokens: 100,
  tokenType: "uint16",
  vocabulary: 256,
  shards: [shard(100, 2)],
  splits: { train: { kind: "ratio", seed: 7, from: 0, to: 0.9 } },
};

const text: Manifest = {
  version: 1,
  kind: "text",
  documents: 3,
  running: false,
  shards: [shard(3, 11)],
  splits: { odd: { kind: "list", hash: sha256("odd"), count: 2 } },
  origin: { dataset: sha256("before"), operation: "kept" },
};

const withClasses = (classes: readonly string[]): Manifest => ({
  ...tensors,
  fields: tensors.fields.map((field) => (field.name === "labels" ? { ...field, classes } : field)),
});

describe("a manifest", () => {
  it("survives its own text, with the same hash", () => {
    for (const manifest of [tensors, tokens, text]) {
      const parsed = parseManifest(manifestText(manifest));
      assert.deepEqual(parsed, manifest);
      assert.equal(manifestHash(parsed), manifestHash(manifest));
    }
  });

  it("has another identity when a split or a shard differs", () => {
    const split = { ...tensors, splits: { ...tensors.splits, train: { kind: "range", start: 0, end: 24 } as const } };
    assert.notEqual(manifestHash(split), manifestHash(tensors));
  });

  it("keeps the names of classes, and has the hash of old without them", () => {
    const named = withClasses(["cat", "dog"]);
    assert.deepEqual(parseManifest(manifestText(named)), named);
    assert.notEqual(manifestHash(named), manifestHash(tensors));
    // Seen before class names existed: datasets that are stored must keep their identity.
    assert.equal(manifestHash(tensors), "12ec2c0a78c26d675f5035926ed250a6fbabd6543ca4add0e8c8831b2c07a9fb");
  });

  for (const [classes, message] of [
    [[], /classes is empty/],
    [["cat", "cat"], /names a class twice/],
    [["cat", ""], /classes\[1\] is empty/],
    [["cat", "\u001b[2J"], /classes\[1\] has a character that cannot be shown/],
    [["cat", 1], /classes\[1\] must be a text/],
    [Array.from({ length: 1001 }, (_, i) => `${i}`), /1001 entries, at most 1000/],
  ] as const)
    it(`is refused with classes ${JSON.stringify(classes).slice(0, 20)}`, () => {
      const text = JSON.stringify(withClasses(classes as readonly string[]));
      assert.throws(() => parseManifest(text), { name: "DcnrError", message });
    });

  it("is refused with classes of fractions", () => {
    const json = JSON.stringify(withClasses(["cat", "dog"])).replace('"int32"', '"float32"');
    assert.throws(() => parseManifest(json), /names of int32 numbers, the field is float32/);
  });

  const wrong: [string, (json: Record<string, unknown>) => unknown, RegExp][] = [
    ["an unknown version", (json) => ({ ...json, version: 2 }), /version 2/],
    ["an unknown kind", (json) => ({ ...json, kind: "video" }), /"video", expected tensors/],
    ["an unknown key", (json) => ({ ...json, comment: "hi" }), /unknown key "comment"/],
    ["fewer samples in its shards than promised", (json) => ({ ...json, samples: 31 }), /hold 30 units.*promises 31/],
    ["a negative count", (json) => ({ ...json, samples: -1 }), /samples is -1/],
    [
      "a split beyond its end",
      (json) => ({ ...json, splits: { train: { kind: "range", start: 0, end: 31 } } }),
      /train.end/,
    ],
    ["a split called all", (json) => ({ ...json, splits: { all: { kind: "range", start: 0, end: 1 } } }), /"all"/],
    [
      "a share above one",
      (json) => ({ ...json, splits: { t: { kind: "ratio", seed: 1, from: 0, to: 2 } } }),
      /t\.to is 2/,
    ],
    ["fields that are no list", (json) => ({ ...json, fields: {} }), /fields must be a list/],
    ["a list instead of an object", () => [], /must be a JSON object/],
  ];
  for (const [what, change, message] of wrong)
    it(`is refused with ${what}`, () => {
      const changed = JSON.stringify(change(JSON.parse(manifestText(tensors)) as Record<string, unknown>));
      assert.throws(() => parseManifest(changed), { name: "DcnrError", message });
    });

  it("is refused when a shard's bytes do not fit its samples, when it is no JSON, and when it is huge", () => {
    const field = (bytes: number) => manifestText(tensors).replace('"bytes":320', `"bytes":${bytes}`);
    assert.throws(() => parseManifest(field(319)), /319 bytes, 20 units need 320/);
    assert.throws(() => parseManifest("{"), /not JSON/);
    assert.throws(() => parseManifest(" ".repeat((16 << 20) + 1)), /at most/);
    const shape = manifestText(tensors).replace('"shape":[4]', '"shape":[65536,65536,65536]');
    assert.throws(() => parseManifest(shape), /larger than/);
  });
});
