import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "../core/errors.ts";
import { sha256 } from "../core/hash.ts";
import type { DType } from "../core/tensor.ts";
import type { Manifest } from "../data/manifest.ts";
import type { DataPlan, Plan } from "../network/plan.ts";
import { checkFit } from "./dataset-fit.ts";

const shard = { hash: sha256("shard"), bytes: 8, count: 2 };

function tokens(vocabulary: number): Manifest {
  return { version: 1, kind: "tokens", tokens: 100, tokenType: "uint16", vocabulary, shards: [shard], splits: {} };
}

function tensors(dtype: DType, shape: number[], scale?: number): Manifest {
  const field = (name: string) => ({ name, dtype, shape, shards: [shard], ...(scale === undefined ? {} : { scale }) });
  return { version: 1, kind: "tensors", samples: 2, chunk: 2, fields: [field("inputs")], splits: {} };
}

function planWith(inputs: DataPlan, labels?: DataPlan): Plan {
  return { name: "net", inputs, ...(labels ? { labels } : {}) } as unknown as Plan;
}

const text: Manifest = { version: 1, kind: "text", documents: 1, running: true, shards: [shard], splits: {} };
const language = planWith({ shape: [8], wire: "int32", below: 50 }, { shape: [8], wire: "int32", below: 50 });
const images = planWith({ shape: [28, 28], wire: "float32" });

function refusal(plan: Plan, manifest: Manifest): string {
  try {
    checkFit(plan, manifest, "data");
  } catch (error) {
    assert.ok(hasCode(error, "failed_precondition"));
    return String((error as Error).message);
  }
  return "";
}

describe("a dataset", () => {
  it("fits a network that takes at least its vocabulary", () => {
    assert.equal(refusal(language, tokens(50)), "");
    assert.match(refusal(language, tokens(51)), /a vocabulary of 51 tokens, network net takes only 50/);
  });

  it("of tokens does not feed images, and text feeds nothing", () => {
    assert.match(refusal(images, tokens(50)), /holds tokens, network net takes float32 \[28,28\]/);
    assert.match(refusal(language, text), /dcnr dataset tokenize data/);
  });

  it("of tensors fits by shape and kind of numbers", () => {
    assert.equal(refusal(images, tensors("float32", [28, 28])), "");
    assert.equal(refusal(images, tensors("uint8", [28, 28], 1 / 255)), "");
    assert.match(refusal(images, tensors("uint8", [28, 28])), /int32 for a network, net takes float32/);
    assert.match(refusal(images, tensors("float32", [784])), /shape \[784\], network net takes \[28,28\]/);
    assert.match(
      refusal(
        planWith({ shape: [28, 28], wire: "float32" }, { shape: [], wire: "int32" }),
        tensors("float32", [28, 28]),
      ),
      /has no labels/,
    );
  });
});
