// Adapters against PEFT, Transformers and PyTorch: fixtures/make-adapter.py wrote the adapters, their logits and losses.

import assert from "node:assert/strict";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import type { Tensor } from "../../core/tensor.ts";
import { openInlineExecutor } from "../../engine/executor.ts";
import { openReferenceEngine } from "../../engine/reference.ts";
import { adaptersOf } from "../../network/adapters.ts";
import { compileText } from "../../network/compile.ts";
import { train } from "../../vnode/training-run.testing.ts";
import { importHuggingFace } from "../files/huggingface.ts";
import { openWeightsFile } from "../files/safetensors.ts";
import { LoneModel } from "../fixtures.testing.ts";
import { merged } from "./merge.ts";
import { importPeft } from "./peft-read.ts";
import { writePeft } from "./peft-write.ts";

const fixtures = fileURLToPath(new URL("../fixtures/", import.meta.url));
const scratch = mkdtempSync(join(tmpdir(), "adapters-"));
after(() => rmSync(scratch, { recursive: true, force: true }));

const expected = JSON.parse(readFileSync(join(fixtures, "adapter/expected.ndjson"), "utf8")) as {
  readonly ids: number[][];
  readonly labels: number[][];
  readonly rate: number;
  readonly losses: number[];
  readonly before: number[][][];
  readonly after: number[][][];
};
const context = expected.ids[0]!.length;

async function adapted(base: string, folder: string) {
  const model = await importHuggingFace(join(fixtures, base), { context });
  const { definition, matrices } = await importPeft(folder, model.definition);
  return { definition, load: async (name: string) => matrices.get(name) ?? (await model.load(name)) };
}

type Loadable = Awaited<ReturnType<typeof adapted>>;

async function assertLogits(model: Loadable, ids: readonly number[][], logits: readonly number[][][], what: string) {
  const lone = await LoneModel.open(model);
  for (const [row, tokens] of ids.entries()) {
    const ours = await lone.logits(tokens);
    for (const [i, value] of logits[row]!.flat().entries())
      assert.ok(Math.abs(value - ours[i]!) < 1e-5 * (1 + Math.abs(value)), `${what}: ${value}, ${ours[i]}`);
  }
}

const llama = JSON.parse(readFileSync(join(fixtures, "adapter/llama.ndjson"), "utf8")) as {
  readonly ids: number[][];
  readonly logits: number[][][];
};
const cases = [
  ["gpt2", "before", expected.ids, expected.before],
  ["gpt2", "after", expected.ids, expected.after],
  // Queries and values have an A each, the gate has one and its other half none.
  ["llama", "llama", llama.ids, llama.logits],
] as const;

for (const [base, folder, ids, logits] of cases)
  test(`${folder}: an adapter of PEFT gives its logits, beside the weights, merged, and written and read again`, async () => {
    const model = await adapted(base, join(fixtures, "adapter", folder));
    await assertLogits(model, ids, logits, "beside");
    await assertLogits(merged(model), ids, logits, "merged");
    const written = join(scratch, `again-${folder}`);
    await writePeft(written, { ...model, base });
    await assertLogits(await adapted(base, written), ids, logits, "written and read again");
  });

test("what is written has PEFT's own names and values where it has one matrix for each of ours", async () => {
  const model = await adapted("gpt2", join(fixtures, "adapter/after"));
  const folder = join(scratch, "names");
  await writePeft(folder, { ...model, base: "gpt2" });
  const file = async (path: string) => (await openWeightsFile(join(path, "adapter_model.safetensors"))).weights;
  const [ours, theirs] = [await file(folder), await file(join(fixtures, "adapter/after"))];
  assert.deepEqual(ours.names.toSorted(), theirs.names.toSorted());
  for (const name of theirs.names) assert.deepEqual(await ours.load(name), await theirs.load(name), name);
  const config = JSON.parse(readFileSync(join(folder, "adapter_config.json"), "utf8"));
  assert.deepEqual([config.r, config.lora_alpha, config.fan_in_fan_out], [3, 6, true]);
});

test("five steps of SGD give PEFT's losses and its adapter, and touch nothing else", async () => {
  const model = await adapted("gpt2", join(fixtures, "adapter/before"));
  // PyTorch's plain SGD, for every node.
  const definition = model.definition.replaceAll("frozen: true", "frozen: true, optimizer: sgd");
  const plan = compileText(definition);
  const weights = new Map<string, Float32Array>();
  for (const { parameters } of plan.vnodes)
    for (const { name } of parameters) weights.set(name, (await model.load(name)).data as Float32Array);
  const { ids, labels, losses, rate } = expected;
  const samples = ids.length;
  const batches = {
    field: async (name: "inputs" | "labels"): Promise<Tensor> => {
      const data = Int32Array.from((name === "inputs" ? ids : labels).flat());
      return { dtype: "int32", shape: [samples, context], data };
    },
  };
  const steps = losses.length;
  const run = await train(definition, 1, openInlineExecutor(openReferenceEngine()), {
    ...{ weights, batches, samples },
    schedule: { steps, microbatches: 1, validateEvery: 0, validationMicrobatches: 0, checkpointEvery: steps },
    learning: {
      seed: 1,
      clipNorm: 0,
      learningRate: { schedule: "constant", base: rate, warmupSteps: 0, finalShare: 0 },
    },
  });
  assert.equal(run.losses.length, steps);
  for (const [step, loss] of losses.entries())
    assert.ok(Math.abs(run.losses[step]! - loss) < 1e-5 * loss, `step ${step}: ${run.losses[step]}, ${loss}`);
  assert.ok(losses.at(-1)! < 0.99 * losses[0]!, "they fall");
  const end = await adapted("gpt2", join(fixtures, "adapter/after"));
  const states = new Map(
    [...run.snapshots].flatMap(([key, { tensors }]) => (key.endsWith(`/${steps}`) ? [...tensors] : [])),
  );
  for (const { a, b } of adaptersOf(plan))
    for (const name of [a, b])
      for (const [i, value] of ((await end.load(name)).data as Float32Array).entries())
        assert.ok(Math.abs(value - Number(states.get(name)!.data[i])) < 2e-5, `${name} at ${i}`);
});

test("what does not fit the base, or asks for more than is known, is refused by name", async () => {
  const folder = join(fixtures, "adapter/after");
  await assert.rejects(
    adapted("llama", folder),
    /tensor "base_model\.model\.transformer\.h\.0.* has no place in the base/,
  );
  const config = JSON.parse(readFileSync(join(folder, "adapter_config.json"), "utf8"));
  const changed = async (change: object) => {
    const copy = mkdtempSync(join(scratch, "changed-"));
    cpSync(folder, copy, { recursive: true });
    writeFileSync(join(copy, "adapter_config.json"), JSON.stringify({ ...config, ...change }));
    return adapted("gpt2", copy);
  };
  await assert.rejects(changed({ peft_type: "IA3" }), /peft_type IA3/);
  await assert.rejects(changed({ use_dora: true }), /use_dora/);
  await assert.rejects(changed({ use_rslora: true }), /use_rslora/);
  await assert.rejects(changed({ modules_to_save: ["lm_head"] }), /modules_to_save/);
  await assert.rejects(changed({ rank_pattern: { c_attn: 8 } }), /rank_pattern/);
  await assert.rejects(changed({ something_new: 1 }), /something_new/);
  await assert.rejects(changed({ bias: "all" }), /bias all/);
  await assert.rejects(changed({ r: 4 }), /tensor "base_model.* is \[3,24\], the base and r ask for \[4,24\]/);
  await assert.rejects(changed({ r: 0 }), /no rank r/);
  const plain = await importHuggingFace(join(fixtures, "gpt2"), { context });
  await assert.rejects(writePeft(join(scratch, "none"), { ...plain, base: "gpt2" }), /no adapters/);
  assert.throws(() => merged(plain), /no adapters to merge/);
});
