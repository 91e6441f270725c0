// Imported models against Hugging Face Transformers: fixtures/make.py wrote the checkpoints and their logits.

import assert from "node:assert/strict";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import type { Tensor } from "../../core/tensor.ts";
import { openReferenceEngine } from "../../engine/reference.ts";
import { compileText } from "../../network/compile.ts";
import { buildInference, buildTraining } from "../../network/graphs/graphs.ts";
import { type ImportedModel, importHuggingFace } from "./huggingface.ts";

const families = ["llama", "llama-sharded", "llama-3.1", "llama-linear", "qwen2", "gpt2"];
const folderOf = (family: string) => fileURLToPath(new URL(`../fixtures/${family}`, import.meta.url));
const scratch = mkdtempSync(join(tmpdir(), "models-"));
after(() => rmSync(scratch, { recursive: true, force: true }));

/** Logits [samples, context, vocabulary] by the whole forward pass, VNode after VNode. */
async function logitsOf(model: ImportedModel, ids: readonly number[][]): Promise<Float32Array> {
  const plan = compileText(model.definition);
  const engine = openReferenceEngine();
  const weights: Record<string, Tensor> = {};
  for (const name of model.parameters) weights[name] = await model.load(name);
  let values: Record<string, Tensor> = {
    inputs: { dtype: "int32", shape: [ids.length, model.context], data: Int32Array.from(ids.flat()) },
  };
  for (const id of plan.order) {
    const vnode = plan.vnodes.find((one) => one.id === id)!;
    const graph = buildInference(plan, vnode, { microbatch: ids.length });
    for (const edge of plan.edges)
      if (edge.kind === "tie" && edge.to === id) values[edge.toPort] = weights[edge.fromPort]!;
    const feeds = Object.fromEntries(graph.inputs.map(({ name }) => [name, values[name] ?? weights[name]!]));
    const outputs = await (await engine.load(graph)).run(feeds);
    values = { ...values, ...outputs };
    for (const edge of plan.edges)
      if (edge.from === id && edge.kind === "activation") values[edge.toPort] = outputs[edge.fromPort]!;
  }
  return values[plan.outputs[0]!.port]!.data as Float32Array;
}

for (const family of families)
  describe(`a checkpoint of ${family}`, () => {
    it("gives Transformers' logits within 1e-3", async () => {
      const { ids, logits } = JSON.parse(readFileSync(join(folderOf(family), "logits.ndjson"), "utf8")) as {
        ids: number[][];
        logits: number[][][];
      };
      const model = await importHuggingFace(folderOf(family), { context: ids[0]!.length });
      const ours = await logitsOf(model, ids);
      const theirs = logits.flat(2);
      assert.equal(ours.length, theirs.length);
      const worst = theirs.reduce((most, value, i) => Math.max(most, Math.abs(value - ours[i]!)), 0);
      assert.ok(worst < 1e-3, `differs by ${worst}`);
      assert.ok(Math.max(...theirs.map(Math.abs)) > 1, "the logits are large enough to tell models apart");
    });

    it("can be trained: every VNode has its graphs", async () => {
      const model = await importHuggingFace(folderOf(family));
      assert.equal(model.context, 32);
      assert.deepEqual(model.chat.endTokens, [2]);
      const plan = compileText(model.definition);
      for (const vnode of plan.vnodes) buildTraining(plan, vnode, { microbatch: 1, lossScale: 1 });
      assert.equal(plan.vnodes.filter((vnode) => vnode.id.startsWith("block_")).length, 2);
    });
  });

describe("a model folder", () => {
  const changed = (name: string, change: (config: Record<string, unknown>) => void): string => {
    const folder = join(scratch, name);
    cpSync(folderOf("llama"), folder, { recursive: true });
    const path = join(folder, "config.json");
    const config = JSON.parse(readFileSync(path, "utf8")) as Record<string, unknown>;
    change(config);
    writeFileSync(path, JSON.stringify(config));
    return folder;
  };

  const wrong: [string, (config: Record<string, unknown>) => void, RegExp][] = [
    [
      "another family",
      (config) => (config["model_type"] = "mamba"),
      /"mamba": llama, qwen2, gpt2, mistral, .* are supported/,
    ],
    [
      "positions stretched otherwise",
      (config) => (config["rope_parameters"] = { rope_type: "mrope" }),
      /rope_parameters of config.json has rope_type = "mrope": only default, linear,/,
    ],
    [
      "positions stretched by nothing",
      (config) => (config["rope_scaling"] = { type: "linear" }),
      /rope_scaling of config.json has factor = nothing/,
    ],
    ["another activation", (config) => (config["hidden_act"] = "relu"), /hidden_act = "relu"/],
    ["a key that nobody knows", (config) => (config["logit_softness"] = 3), /the key "logit_softness"/],
    [
      "a key of positions that nobody knows",
      (config) => (config["rope_parameters"] = { rope_type: "default", rope_softness: 1 }),
      /rope_parameters of config.json has the key "rope_softness"/,
    ],
    ["quantised weights", (config) => (config["quantization_config"] = {}), /the key "quantization_config"/],
    ["sizes that are none", (config) => (config["hidden_size"] = -1), /hidden_size = -1/],
  ];
  for (const [what, change, message] of wrong)
    it(`is refused with ${what}`, async () => {
      await assert.rejects(importHuggingFace(changed(what.replaceAll(" ", "-"), change)), {
        name: "DcnrError",
        message,
      });
    });

  it("is refused when its weights do not fit its config", async () => {
    const imported = (name: string, change: (config: Record<string, unknown>) => void) =>
      importHuggingFace(changed(name, change));
    await assert.rejects(
      imported("misfit", (config) => (config["intermediate_size"] = 41)),
      /tensor "model.layers.0.mlp.up_proj.weight" is \[40,24\], but config.json asks for \[41,24\]/,
    );
    await assert.rejects(
      imported("deeper", (config) => (config["num_hidden_layers"] = 3)),
      /no tensor "model.layers.2.input_layernorm.weight"/,
    );
    await assert.rejects(
      imported("shallower", (config) => (config["num_hidden_layers"] = 1)),
      /tensor "model.layers.1.[a-z_.]+" \[[0-9,]+\] has no place/,
    );
    await assert.rejects(
      imported("biased", (config) => (config["attention_bias"] = true)),
      /no tensor "model.layers.0.self_attn.q_proj.bias"/,
    );
    await assert.rejects(
      imported("tied", (config) => (config["tie_word_embeddings"] = true)),
      /tie_word_embeddings, but tensor "lm_head.weight" differs/,
    );
    const model = await imported("fine", () => {});
    await assert.rejects(model.load("nothing"), /no parameter "nothing"/);
  });

  it("is refused when its vocabulary does not belong to it", async () => {
    const folder = changed("vocabulary", () => {});
    cpSync(
      fileURLToPath(new URL("../../data/bpe/fixtures/llama3.json", import.meta.url)),
      join(folder, "tokenizer.json"),
    );
    await assert.rejects(importHuggingFace(folder), /tokenizer\.json has 703 tokens, the model only 61/);
  });

  it("is refused when a safetensors file is damaged, truncated or leads elsewhere", async () => {
    const damaged = (name: string, change: (content: Buffer) => Buffer) => {
      const folder = changed(name, () => {});
      const path = join(folder, "model.safetensors");
      writeFileSync(path, change(readFileSync(path)));
      return importHuggingFace(folder);
    };
    await assert.rejects(
      damaged("empty", () => Buffer.alloc(0)),
      /it has 0 bytes/,
    );
    await assert.rejects(
      damaged("long-header", (content) => Buffer.concat([Buffer.alloc(8, 0xff), content.subarray(8)])),
      /header claims/,
    );
    await assert.rejects(
      damaged("no-json", (content) => Buffer.concat([content.subarray(0, 8), Buffer.alloc(content.length - 8, 0x20)])),
      /not JSON/,
    );
    await assert.rejects(
      damaged("truncated", (content) => content.subarray(0, content.length - 5)),
      /wrong dtype, shape or place/,
    );
    await assert.rejects(
      damaged("shape", (content) => Buffer.from(content.toString("latin1").replace("[61,24]", "[61,25]"), "latin1")),
      /wrong dtype, shape or place/,
    );
    const folder = changed("elsewhere", () => {});
    writeFileSync(
      join(folder, "model.safetensors.index.json"),
      JSON.stringify({ weight_map: { x: "../llama/model.safetensors" } }),
    );
    await assert.rejects(importHuggingFace(folder), { code: "permission_denied" });
    await assert.rejects(importHuggingFace(join(scratch, "missing")), { code: "not_found", message: /config\.json/ });
  });

  it("is refused for contexts that the model was not made for", async () => {
    await assert.rejects(importHuggingFace(folderOf("gpt2"), { context: 33 }), /1 to 32 tokens/);
  });
});
