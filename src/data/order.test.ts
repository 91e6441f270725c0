import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { sha256 } from "../core/hash.ts";
import type { SplitRule, TensorsManifest, TokensManifest } from "./manifest.ts";
import { sampleIndices, splitList, validationSamples, viewSplit } from "./order.ts";

function tensorsOf(samples: number, chunk: number, splits: Record<string, SplitRule> = {}): TensorsManifest {
  const shards = [{ hash: sha256(""), bytes: samples * 4, count: samples }];
  return {
    version: 1,
    kind: "tensors",
    samples,
    chunk,
    splits,
    fields: [{ name: "inputs", dtype: "float32", shape: [], shards }],
  };
}

function tokensOf(tokens: number, splits: Record<string, SplitRule> = {}): TokensManifest {
  const shards = [{ hash: sha256(""), bytes: tokens * 2, count: tokens }];
  return { version: 1, kind: "tokens", tokens, tokenType: "uint16", vocabulary: 256, shards, splits };
}

const range = (start: number, end: number) => Array.from({ length: end - start }, (_, i) => start + i);
const sorted = (values: readonly number[]) => [...values].sort((a, b) => a - b);

describe("the samples of training steps", () => {
  for (const [samples, chunk] of [
    [60, 1000],
    [60, 1],
    [1000, 7],
    [997, 10],
    [1, 1],
  ] as const)
    it(`use each of ${samples} samples exactly once an epoch, in chunks of ${chunk}`, () => {
      const manifest = tensorsOf(samples, chunk);
      const batch = 6;
      const drawn = range(0, Math.ceil((samples * 3) / batch)).flatMap((step) =>
        sampleIndices({ seed: 5, manifest, split: "all", step, batch }),
      );
      for (let epoch = 0; epoch < 3; epoch++)
        assert.deepEqual(sorted(drawn.slice(epoch * samples, (epoch + 1) * samples)), range(0, samples));
    });

  it("come in another order with another seed and in another epoch", () => {
    const manifest = tensorsOf(100, 100);
    const epoch = (seed: number, step: number) => sampleIndices({ seed, manifest, split: "all", step, batch: 100 });
    assert.notDeepEqual(epoch(1, 0), range(0, 100));
    assert.notDeepEqual(epoch(1, 0), epoch(2, 0));
    assert.notDeepEqual(epoch(1, 0), epoch(1, 1));
    assert.deepEqual(epoch(1, 1), epoch(1, 1));
  });

  it("stay near each other in a dataset of many chunks, so that few shards are open at a time", () => {
    const chunk = 50;
    const manifest = tensorsOf(50 * 200, chunk);
    const samples = sampleIndices({ seed: 3, manifest, split: "all", step: 0, batch: 16 * chunk });
    const chunks = new Set(samples.map((sample) => Math.floor(sample / chunk)));
    assert.equal(chunks.size, 16);
    assert.ok(Math.max(...chunks) - Math.min(...chunks) > 16, "the chunks themselves are shuffled");
  });
});

describe("a split", () => {
  it("by ratio parts the samples without gap or overlap, for any seed and size", () => {
    for (const samples of [1, 9, 1024, 1025, 5000]) {
      const splits: Record<string, SplitRule> = {
        train: { kind: "ratio", seed: 11, from: 0, to: 0.8 },
        validation: { kind: "ratio", seed: 11, from: 0.8, to: 1 },
      };
      const manifest = tensorsOf(samples, 64, splits);
      const members = (split: string) => {
        try {
          const view = viewSplit({ manifest, split });
          return range(0, view.samples).map((place) => view.at(place));
        } catch {
          return [];
        }
      };
      assert.deepEqual(sorted([...members("train"), ...members("validation")]), range(0, samples));
      assert.ok(Math.abs(members("train").length - samples * 0.8) <= samples / 1024 + 1);
    }
  });

  it("by list uses the members of its blob, which must be ascending", () => {
    const rule = { kind: "list", hash: sha256("x"), count: 3 } as const;
    const manifest = tensorsOf(10, 10, { some: rule });
    const members = splitList(new Uint8Array(Uint32Array.of(2, 5, 9).buffer), rule, 10);
    assert.deepEqual(
      sorted(sampleIndices({ seed: 1, manifest, split: "some", step: 0, batch: 3, members })),
      [2, 5, 9],
    );
    assert.throws(() => splitList(new Uint8Array(Uint32Array.of(5, 2, 9).buffer), rule, 10), /not ascending/);
    assert.throws(() => splitList(new Uint8Array(Uint32Array.of(2, 5, 10).buffer), rule, 10), /beyond 10/);
    assert.throws(() => splitList(new Uint8Array(8), rule, 10), /8 bytes/);
  });

  it("of a token stream holds only samples whose tokens and labels lie inside it", () => {
    for (const context of [1, 3, 8])
      for (const start of [0, 1, 7, 8]) {
        const end = 61;
        const manifest = tokensOf(100, { part: { kind: "range", start, end } });
        const view = viewSplit({ manifest, split: "part", context });
        const inside = range(0, 100).filter((i) => i * context >= start && i * context + context + 1 <= end);
        assert.deepEqual(
          range(0, view.samples).map((place) => view.at(place)),
          inside,
        );
      }
  });

  it("that is unknown or empty is refused with what there is", () => {
    const manifest = tensorsOf(10, 10, { none: { kind: "range", start: 4, end: 4 } });
    assert.throws(() => viewSplit({ manifest, split: "test" }), /no split "test", it has all, none/);
    assert.throws(() => viewSplit({ manifest, split: "none" }), /no samples/);
    assert.throws(() => viewSplit({ manifest: tokensOf(10), split: "all" }), /context length/);
  });

  it("gives validation the same samples in order, from the start again at its end", () => {
    const view = viewSplit({ manifest: tensorsOf(10, 2, { v: { kind: "range", start: 6, end: 10 } }), split: "v" });
    assert.deepEqual(validationSamples(view, 0, 3), [6, 7, 8]);
    assert.deepEqual(validationSamples(view, 3, 3), [9, 6, 7]);
  });
});
