// Whole networks over several steps: engines agree, losses fall, half precisions round where they should.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { t1, transformerYaml } from "../../../examples/generate.ts";
import { sha256 } from "../../core/hash.ts";
import { roundToBfloat16 } from "../../core/numbers/half.ts";
import { openEngine } from "../../engine/open.ts";
import { encodeOnnx } from "../../graph/onnx.ts";
import { compileText } from "../compile.ts";
import type { Plan } from "../plan.ts";
import { buildEvaluation, buildTraining } from "./graphs.ts";
import { LocalTrainer, randomSample, type TrainerOptions } from "./trainer.testing.ts";

/** T1 with the same structure and every size cut down. */
const reduced = transformerYaml({
  ...t1,
  name: "t1-small",
  blocks: 2,
  heads: 2,
  headDim: 8,
  context: 8,
  vocabulary: 40,
});

async function losses(plan: Plan, steps: number, options: Omit<TrainerOptions, "plan">): Promise<number[]> {
  const trainer = await LocalTrainer.open({ ...options, plan });
  const samples = [randomSample(plan, options.microbatch, "a"), randomSample(plan, options.microbatch, "b")];
  const found: number[] = [];
  for (let step = 0; step < steps; step++) found.push(await trainer.step(samples));
  return found;
}

test("ten steps of a reduced T1 give the same falling losses on the reference and the native engine", async () => {
  const plan = compileText(reduced);
  const runs = [];
  for (const kind of ["reference", "native"] as const) {
    const engine = await openEngine(kind);
    runs.push(await losses(plan, 10, { engine, microbatch: 2, microbatches: 2, rate: 1e-2 }));
    await engine.close();
  }
  const [reference, native] = runs as [number[], number[]];
  for (const [step, loss] of reference.entries())
    assert.ok(Math.abs(loss - native[step]!) < 1e-4, `step ${step}: ${loss} and ${native[step]}`);
  assert.ok(reference[9]! < reference[0]! - 0.3, `the loss falls: ${reference.join(" ")}`);
});

test("heads written one by one compute what one attention node computes", async () => {
  const plan = compileText(reduced);
  const block = plan.vnodes.find(({ id }) => id === "transformer_block_1")!;
  assert.deepEqual(block.body.find(({ id }) => id === "block_1_heads")?.standsFor, [
    "block_1_head_0",
    "block_1_head_1",
    "block_1_heads",
  ]);
  // Without fusion every head is a VNode of its own, with its own columns of the merged matrix.
  const single = compileText(reduced.replaceAll(/ +colocate_group: "transformer_block_\d+"\n/g, ""));
  assert.equal(single.vnodes.filter(({ id }) => /block_\d+_head_\d+$/.test(id)).length, 4);
  const engine = await openEngine("reference");
  const merged = await LocalTrainer.open({ engine, plan, microbatch: 1 });
  const weights = new Map<string, Float32Array>(
    [...merged.weights].map(([name, values]) => [name, Float32Array.from(values)]),
  );
  for (const b of [1, 2])
    for (const h of [0, 1])
      weights.set(`block_${b}_head_${h}.qkv.weight`, columns(weights.get(`block_${b}_heads.qkv.weight`)!, 16, 8, h));
  const apart = await LocalTrainer.open({ engine, plan: single, microbatch: 1, weights });
  const sample = randomSample(plan, 1, "heads");
  const [a, b] = [await merged.evaluate(sample), await apart.evaluate(sample)];
  assert.ok(Math.abs(a["loss"]! - b["loss"]!) < 1e-5, `${a["loss"]} and ${b["loss"]}`);
});

/** Head `head` of [rows, q heads | k heads | v heads] with two heads of `width` columns. */
function columns(merged: Float32Array, rows: number, width: number, head: number): Float32Array {
  const out = new Float32Array(rows * 3 * width);
  for (let row = 0; row < rows; row++)
    for (let part = 0; part < 3; part++)
      for (let i = 0; i < width; i++)
        out[row * 3 * width + part * width + i] = merged[row * 6 * width + part * 2 * width + head * width + i]!;
  return out;
}

test("bf16 rounds weights and what travels, learns in float32, and stays near float32", async () => {
  const half = compileText(reduced.replace("precision: float32", "precision: bf16"));
  assert.ok(half.edges.every(({ wire }) => wire === "bfloat16"));
  assert.ok(half.vnodes.every(({ parameters }) => parameters.every(({ precision }) => precision === "bfloat16")));
  const engine = await openEngine("reference");
  const options = { engine, microbatch: 1, rate: 3e-3 };
  const exact = await losses(compileText(reduced), 4, options);
  const rounded = await losses(half, 4, options);
  for (const [step, loss] of exact.entries()) {
    assert.notEqual(loss, rounded[step], "rounding shows");
    assert.ok(Math.abs(loss - rounded[step]!) < 0.1, `step ${step}: ${loss} and ${rounded[step]}`);
  }
  const trainer = await LocalTrainer.open({ ...options, plan: half });
  await trainer.step([randomSample(half, 1, "a")]);
  const master = trainer.weights.get("embedder.weight")!;
  assert.ok(
    master.some((value) => value !== roundToBfloat16(value)),
    "masters keep more digits",
  );
});

test("int8 rounds what travels and nothing else, and stays near float32", async () => {
  const eight = compileText(`activation_precision: int8\n${reduced}`);
  const travelling = eight.edges.filter(({ kind, wire }) => kind === "activation" && wire !== "int32");
  assert.ok(travelling.length > 0 && travelling.every(({ wire }) => wire === "int8"));
  assert.ok(eight.vnodes.every(({ parameters }) => parameters.every(({ precision }) => precision === "float32")));
  const options = { engine: await openEngine("reference"), microbatch: 1, rate: 3e-3 };
  const exact = await losses(compileText(reduced), 4, options);
  const rounded = await losses(eight, 4, options);
  for (const [step, loss] of exact.entries()) {
    assert.notEqual(loss, rounded[step], "rounding shows");
    assert.ok(Math.abs(loss - rounded[step]!) < 0.05, `step ${step}: ${loss} and ${rounded[step]}`);
  }
});

test("fp16 keeps gradients that are too small for its range", async () => {
  // A large batch and a small loss make gradients near the end of what float16 holds.
  const text = (precision: string) => `precision: ${precision}
nodes:
  - { id: a, type: linear, config: { in_dim: 4, out_dim: 4, optimizer: sgd, param_precision: float32 }, input_shapes: [[64, 4]] }
  - { id: b, type: tanh }
  - { id: c, type: linear, config: { out_dim: 4, optimizer: sgd, param_precision: float32 } }
  - { id: loss, type: cost, config: { cost_function: mse } }
edges: [{ from: a, to: b }, { from: b, to: c }, { from: c, to: loss }]`;
  const gradients = [];
  for (const precision of ["float32", "fp16"]) {
    const plan = compileText(text(precision));
    const engine = await openEngine("reference");
    const trainer = await LocalTrainer.open({ engine, plan, microbatch: 64, microbatches: 256 });
    await trainer.differentiate([randomSample(plan, 64, "a")]);
    gradients.push(trainer.gradients.get("a.weight")!);
  }
  const [exact, half] = gradients as [Float64Array, Float64Array];
  for (const [i, value] of exact.entries())
    assert.ok(Math.abs(half[i]! - value) < 0.02 * Math.abs(value) + 1e-9, `[${i}]: ${half[i]} is not ${value}`);
});

test("evaluation has no chance in it and counts hits", async () => {
  const plan = compileText(reduced);
  const engine = await openEngine("reference");
  const trainer = await LocalTrainer.open({ engine, plan, microbatch: 2, rate: 1e-2 });
  const sample = randomSample(plan, 2, "a");
  const before = await trainer.evaluate(sample);
  assert.deepEqual(await trainer.evaluate(sample), before);
  assert.equal(before["counted"], 16);
  for (let step = 0; step < 60; step++) await trainer.step([sample]);
  const after = await trainer.evaluate(sample);
  assert.ok(
    after["correct"]! > 12 && after["correct"]! <= 16,
    `${after["correct"]} of 16 after learning one sample by heart`,
  );
});

test("equal definitions give equal graphs, byte for byte", () => {
  const bytes = () => {
    const plan = compileText(reduced);
    return plan.vnodes.flatMap((vnode) => {
      const { forward, backward } = buildTraining(plan, vnode, { microbatch: 2, lossScale: 0.5 });
      const graphs = [forward, ...(backward ? [backward] : []), buildEvaluation(plan, vnode, { microbatch: 2 })];
      return graphs.map((graph) => sha256(encodeOnnx(graph)));
    });
  };
  assert.deepEqual(bytes(), bytes());
});

test("a head with cross-entropy never holds its logits whole, tied or not", () => {
  const head = (config: string) => `nodes:
  - { id: table, type: embedder, config: { vocab_size: 20000, dim: 16, seq_len: 512, shared_weight_alias: t } }
  - { id: head, type: linear, config: { ${config} } }
  - { id: loss, type: cost, config: { cost_function: ce_logits } }
edges: [{ from: table, to: head }, { from: head, to: loss }]
outputs: [{ name: logits, node_id: head }]`;
  for (const config of ["tie_weight_alias: t", "out_dim: 20000", "out_dim: 20000, bias: false"]) {
    const plan = compileText(head(config));
    const vnode = plan.vnodes.find(({ id }) => id === "head")!;
    const { forward } = buildTraining(plan, vnode, { microbatch: 2, lossScale: 1 });
    const slices = forward.nodes.filter(({ op }) => op === "Slice").length;
    assert.ok(slices >= 2, `${config}: rows are worked off in chunks`);
    assert.ok(
      !forward.outputs.some(({ shape }) => shape.includes(512) && shape.includes(20_000)),
      `${config}: no logits leave`,
    );
  }
});

test("the example networks learn", async () => {
  const engine = await openEngine("native");
  for (const [file, rate] of [
    ["mlp", 1e-3],
    ["conv", 3e-3],
    ["gpt-demo", 1e-3],
  ] as const) {
    const plan = compileText(readFileSync(new URL(`../../../examples/${file}.yaml`, import.meta.url), "utf8"));
    const found = await losses(plan, 6, { engine, microbatch: 2, rate });
    assert.ok(found[5]! < 0.95 * found[0]!, `${file}: ${found.join(" ")}`);
  }
  await engine.close();
});

test("evaluation and training see the same loss where there is no chance", async () => {
  const still = transformerYaml({ ...t1, blocks: 1, heads: 2, headDim: 4, context: 8, vocabulary: 30, dropout: 0 });
  const untied = still.replace('tie_weight_alias: "token_embedding"', 'bias: "true"');
  const engine = await openEngine("reference");
  for (const text of [still, untied]) {
    const plan = compileText(text);
    const trainer = await LocalTrainer.open({ engine, plan, microbatch: 2 });
    const sample = randomSample(plan, 2, "same");
    const { loss } = await trainer.evaluate(sample);
    assert.ok(Math.abs(loss! - (await trainer.differentiate([sample]))) < 1e-6);
  }
});
