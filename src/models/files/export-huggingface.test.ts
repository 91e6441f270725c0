// What is exported in Hugging Face's layout: for every family the tensors that were imported, under their names, and a
// config that reads back as the same network. fixtures/check-exports.py loads the same folders with Transformers.

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { t1, transformerYaml } from "../../../examples/generate.ts";
import { float32, type Tensor } from "../../core/tensor.ts";
import { compileText } from "../../network/compile.ts";
import { fixtureNames, LoneModel, readFixture, tensorValues, writeFixture } from "../fixtures.testing.ts";
import { recognise } from "../recognise.ts";
import { writeHuggingFace } from "./export-huggingface.ts";
import { importHuggingFace } from "./huggingface.ts";
import { openWeights } from "./safetensors.ts";

const scratch = mkdtempSync(join(tmpdir(), "exports-"));
after(() => rmSync(scratch, { recursive: true, force: true }));

type Loadable = { definition: string; load(name: string): Promise<Tensor> };

async function exported(folder: string, model: Loadable) {
  const { vnodes } = compileText(model.definition);
  return writeHuggingFace(folder, {
    definition: model.definition,
    chat: { template: "", bosToken: "", eosToken: "", endTokens: [2] },
    weightsOf: async (vnode) => {
      const own = vnodes.find(({ id }) => id === vnode)?.parameters ?? [];
      return new Map(await Promise.all(own.map(async ({ name }) => [name, await model.load(name)] as const)));
    },
  });
}

/** Scales that are stored less one lose the last bits on the way. */
function assertSame(found: Tensor, expected: Tensor, name: string, exact: boolean): void {
  assert.deepEqual(found.shape, expected.shape, name);
  const [ours, theirs] = [found.data as Float32Array, expected.data as Float32Array];
  const worst = Math.max(...Array.from(ours, (value, i) => Math.abs(value - theirs[i]!)));
  assert.ok(worst <= (exact ? 0 : 1e-7), `${name} differs by ${worst}`);
}

describe("the export of a model like", () => {
  for (const name of fixtureNames())
    it(`${name} holds the tensors that were imported, and imports as the same network`, async () => {
      const [from, to] = [join(scratch, name), join(scratch, `${name}-out`)];
      writeFixture(from, readFixture(name));
      const model = await importHuggingFace(from, { name: "same", context: 96 });
      await exported(to, model);
      const again = await importHuggingFace(to, { name: "same" });
      assert.equal(again.definition, model.definition);
      assert.deepEqual(again.chat.endTokens, [2]);
      const [before, behind] = [await openWeights(from), await openWeights(to)];
      // A head that is tied may have been stored twice; a table of positions is as long as the context.
      for (const tensor of behind.names)
        if (!/embed_positions/.test(tensor))
          assertSame(await behind.load(tensor), await before.load(tensor), tensor, !name.startsWith("gemma"));
      for (const tensor of before.names) assert.ok(behind.has(tensor) || tensor === "lm_head.weight", tensor);
    });

  for (const name of ["gpt2", "llama", "llama-3.1", "llama-linear", "llama-sharded", "qwen2"])
    it(`${name}, as Transformers saved it, imports as the same network`, async () => {
      const from = fileURLToPath(new URL(`../fixtures/${name}`, import.meta.url));
      const model = await importHuggingFace(from, { name: "same" });
      const { family } = await exported(join(scratch, `${name}-out`), model);
      assert.equal(family, name.split("-")[0]);
      assert.equal(
        (await importHuggingFace(join(scratch, `${name}-out`), { name: "same" })).definition,
        model.definition,
      );
    });
});

describe("a network that nobody imported", () => {
  const demo = readFileSync(new URL("../../../examples/gpt-demo.yaml", import.meta.url), "utf8").replaceAll(
    "vocab_size: 512",
    "vocab_size: 61",
  );
  const load = async (name: string) => {
    const parameter = compileText(demo)
      .vnodes.flatMap((vnode) => vnode.parameters)
      .find((one) => one.name === name)!;
    return float32(parameter.shape, tensorValues(name, parameter.shape, false));
  };

  it("and has a family's form, as the demo's has Llama's, is exported as one and computes the same", async () => {
    const folder = join(scratch, "demo");
    assert.deepEqual((await exported(folder, { definition: demo, load })).family, "llama");
    const ids = Array.from({ length: 64 }, (_, i) => (7 * i) % 61);
    const ours = await (await LoneModel.open({ definition: demo, load })).logits(ids);
    const theirs = await (await LoneModel.open(await importHuggingFace(folder))).logits(ids);
    assert.deepEqual(theirs, ours);
  });

  it("is not taken for a family when anything of it differs", () => {
    assert.equal(recognise(demo)?.family.model, "llama");
    const other: [from: string | RegExp, to: string][] = [
      [
        "position_encoding: rope, colocate_group: block_2",
        "position_encoding: rope, causal: false, colocate_group: block_2",
      ],
      [
        "position_encoding: rope, colocate_group: block_2",
        "position_encoding: rope, score_cap: 3, colocate_group: block_2",
      ],
      ["id: ffn_gate_3, type: swiglu", "id: ffn_gate_3, type: geglu"],
      ["id: norm_2, type: rmsnorm, config: {", "id: norm_2, type: rmsnorm, config: { epsilon: 0.1,"],
      ["id: norm_2, type: rmsnorm", "id: norm_2, type: layernorm"],
    ];
    for (const [from, to] of other) {
      const changed = demo.replace(from, to);
      assert.notEqual(changed, demo);
      assert.equal(recognise(changed), undefined, to);
    }
    assert.equal(
      recognise(transformerYaml({ ...t1, name: "t", blocks: 1, heads: 2, headDim: 4, context: 4 })),
      undefined,
    );
  });
});
