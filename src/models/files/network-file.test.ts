import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { hasCode } from "../../core/errors.ts";
import type { Tensor } from "../../core/tensor.ts";
import { compileText } from "../../network/compile.ts";
import { importHuggingFace } from "./huggingface.ts";
import { openNetworkFile, writeNetworkFile } from "./network-file.ts";
import { openWeights } from "./safetensors.ts";

const folder = mkdtempSync(join(tmpdir(), "network-file-"));
after(() => rmSync(folder, { recursive: true, force: true }));

const fixture = fileURLToPath(new URL("../fixtures/llama", import.meta.url));

async function written(path: string): Promise<Awaited<ReturnType<typeof importHuggingFace>>> {
  const model = await importHuggingFace(fixture);
  const plan = compileText(model.definition);
  await writeNetworkFile(path, {
    definition: model.definition,
    tokenizer: "the vocabulary",
    notes: { step: "7" },
    weightsOf: async (id) => {
      const vnode = plan.vnodes.find((one) => one.id === id)!;
      const weights = new Map<string, Tensor>();
      for (const { name } of vnode.parameters) weights.set(name, await model.load(name));
      return weights;
    },
  });
  return model;
}

describe("a network in one file", () => {
  it("is read back with its definition, vocabulary and every weight", async () => {
    const path = join(folder, "model.safetensors");
    const model = await written(path);
    const file = await openNetworkFile(path);
    assert.equal(file.definition, model.definition);
    assert.equal(file.tokenizer, "the vocabulary");
    for (const name of model.parameters) assert.deepEqual(await file.load(name), await model.load(name));
    assert.deepEqual([...(await openWeights(folder)).names].sort(), [...model.parameters].sort());
  });

  it("is refused when it is cut short or holds no definition", async () => {
    const path = join(folder, "model.safetensors");
    await written(path);
    const cut = join(folder, "cut.safetensors");
    writeFileSync(cut, readFileSync(path).subarray(0, -4));
    await assert.rejects(openNetworkFile(cut), /not a usable safetensors file/);
    await assert.rejects(openNetworkFile(join(fixture, "model.safetensors")), /no network definition/);
  });

  it("leaves nothing behind when a weight is missing", async () => {
    const { definition } = await importHuggingFace(fixture);
    const path = join(folder, "broken.safetensors");
    await assert.rejects(writeNetworkFile(path, { definition, weightsOf: async () => new Map() }), (error: unknown) =>
      hasCode(error, "data_loss"),
    );
    assert.deepEqual(
      readdirSync(folder).filter((name) => name.startsWith("broken")),
      [],
    );
  });
});
