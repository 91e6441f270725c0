import assert from "node:assert/strict";
import { test } from "node:test";
import type { Sha256 } from "../core/ids.ts";
import { account, samplesByStep } from "./accounting.ts";
import type { Manifest } from "./manifest.ts";

const manifest: Manifest = {
  version: 1,
  kind: "tensors",
  samples: 53,
  fields: [
    {
      name: "inputs",
      dtype: "float32",
      shape: [1],
      shards: [{ hash: "0".repeat(64) as Sha256, bytes: 212, count: 53 }],
    },
  ],
  chunk: 8,
  splits: { train: { kind: "range", start: 3, end: 50 } },
};
const request = { manifest, split: "train", seed: 5, batch: 8, steps: 30 };

test("every sample of the split is used exactly once an epoch, over several epochs and the one under way", () => {
  const result = account(request);
  assert.deepEqual(result, { samples: 47, epochs: 5, rest: 5, wrong: [] });
});

test("a sample that is left out for another that is used twice is found", () => {
  const log = [...samplesByStep(request)];
  const first = log[0]?.samples as number[];
  const [kept, lost] = [first[0] as number, first[1] as number];
  first[1] = kept;
  const { wrong } = account(request, log);
  assert.deepEqual(
    wrong.toSorted((a, b) => a.uses - b.uses),
    [
      { epoch: 0, sample: lost, uses: 0 },
      { epoch: 0, sample: kept, uses: 2 },
    ],
  );
});
