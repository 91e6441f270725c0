// Passes with caches against the whole forward pass, and the contract on which serving stands: a row has the same bits alone,
// beside any others, in any chunk of a prompt, behind a shared beginning, and after guesses that were wrong.

import assert from "node:assert/strict";
import { test } from "node:test";
import { t1, transformerYaml } from "../../../examples/generate.ts";
import { hasCode } from "../../core/errors.ts";
import { fillNormal, randomKey, uniformAt } from "../../core/numbers/random.ts";
import { elementCount, float32, type Tensor } from "../../core/tensor.ts";
import type { Engine } from "../../engine/engine.ts";
import { openInlineExecutor } from "../../engine/executor.ts";
import { hasNativeEngine } from "../../engine/onnx/native.ts";
import { openEngine } from "../../engine/open.ts";
import { openReferenceEngine } from "../../engine/reference.ts";
import { compileText } from "../../network/compile.ts";
import { generationHead } from "../../network/graphs/generation.ts";
import { buildInference } from "../../network/graphs/graphs.ts";
import type { Plan } from "../../network/plan.ts";
import { LocalStage } from "./local-stage.testing.ts";

const context = 80;
const vocabulary = 13;

function weightsOf(plan: Plan): (name: string) => Tensor {
  const shapes = new Map(plan.vnodes.flatMap(({ parameters }) => parameters.map(({ name, shape }) => [name, shape])));
  return (name) => {
    const shape = shapes.get(name) as readonly number[];
    const data = new Float32Array(elementCount(shape));
    fillNormal(data, randomKey("weights", name), 0.3);
    return float32(shape, data);
  };
}

function tokensOf(seed: number, length: number): number[] {
  return Array.from({ length }, (_, i) => (i * i * seed + 3 * i + seed) % vocabulary);
}

/** Logits of every position, by the forward pass of training on the reference engine. */
async function whole(plan: Plan, ids: readonly number[]): Promise<Float32Array[]> {
  const engine = openReferenceEngine();
  const load = weightsOf(plan);
  const padded = Int32Array.from({ length: context }, (_, i) => ids[i] ?? 0);
  let values: Record<string, Tensor> = { inputs: { dtype: "int32", shape: [1, context], data: padded } };
  for (const id of plan.order) {
    const vnode = plan.vnodes.find((each) => each.id === id)!;
    const weights = Object.fromEntries(vnode.parameters.map(({ name }) => [name, load(name)]));
    for (const edge of plan.edges)
      if (edge.to === id && edge.kind === "tie") weights[edge.toPort] = load(edge.fromPort);
    const program = await engine.load(buildInference(plan, vnode, { microbatch: 1 }));
    const outputs = await program.run({ ...values, ...weights });
    values = { ...values, ...outputs };
    for (const edge of plan.edges)
      if (edge.from === id && edge.kind === "activation" && outputs[edge.fromPort])
        values[edge.toPort] = outputs[edge.fromPort]!;
  }
  const logits = values[plan.outputs[0]!.port]!.data as Float32Array;
  return ids.map((_, i) => logits.slice(i * vocabulary, (i + 1) * vocabulary));
}

function assertClose(actual: Float32Array, expected: Float32Array, what: string): void {
  for (const [i, value] of expected.entries())
    assert.ok(Math.abs(actual[i]! - value) < 1e-4 * (1 + Math.abs(value)), `${what}: ${actual[i]}, ${value}`);
}

const attentions: Readonly<Record<string, string>> = {
  "grouped heads and rope": "num_heads: 4, num_kv_heads: 2, position_encoding: rope",
  "a head of 6 elements": "num_heads: 2, head_dim: 6, position_encoding: none",
  "a wide head": "num_heads: 1, head_dim: 40, position_encoding: rope",
  "a window": "num_heads: 4, num_kv_heads: 2, window: 21, position_encoding: rope",
  "a window of one": "num_heads: 2, window: 1",
  alibi: "num_heads: 4, num_kv_heads: 2, position_encoding: alibi",
  "alibi rounded to bfloat16": "num_heads: 2, position_encoding: alibi, alibi_bfloat16: true, alibi_scale: 0.5",
  "caps and scales of scores": "num_heads: 2, score_cap: 0.5, score_scale: 2",
  "norms of queries and keys": "num_heads: 4, num_kv_heads: 2, qk_norm: head, position_encoding: rope",
  "norms over all heads": "num_heads: 4, num_kv_heads: 2, qk_norm: flat, position_encoding: rope",
  "rotation of a part": "num_heads: 2, position_encoding: rope, rope_dims: 2, rope_amplitude: 1.5",
};

const definitions: Readonly<Record<string, string>> = {
  "two blocks as VNodes": transformerYaml({
    ...t1,
    ...{ name: "small", blocks: 2, heads: 2, headDim: 4, context, vocabulary },
  }),
  ...Object.fromEntries(
    Object.entries(attentions).map(([what, config]) => [
      what,
      `nodes:
  - { id: table, type: embedder, config: { vocab_size: ${vocabulary}, dim: 8, seq_len: ${context}, position_encoding: learned } }
  - { id: norm, type: rmsnorm }
  - { id: mix, type: attention, config: { ${config} } }
  - { id: gate, type: silu }
  - { id: logits, type: linear, config: { out_dim: ${vocabulary} } }
edges: [{ from: table, to: norm }, { from: norm, to: mix }, { from: mix, to: gate }, { from: gate, to: logits }]
outputs: [{ name: logits, node_id: logits }]`,
    ]),
  ),
};

const engines: Readonly<Record<string, () => Promise<Engine>>> = {
  reference: () => openEngine("reference"),
  portable: () => openEngine("portable"),
  ...(hasNativeEngine() && { native: () => openEngine("native") }),
};

/** Splits of a sequence into passes, drawn; beside each pass another request goes its own way. */
async function assertSameBits(stage: LocalStage, ids: readonly number[], expected: readonly Float32Array[]) {
  for (let round = 0; round < 4; round++) {
    const draw = (count: number, most: number) => 1 + Math.floor(uniformAt(randomKey("split", round), count) * most);
    let position = 0;
    let beside = 0;
    for (let count = 0; position < ids.length; count++) {
      const tokens = Math.min(round === 0 ? 1 : draw(count, 20), ids.length - position);
      // Some of what is guessed is wrong: what a pass left behind the right tokens must not matter.
      const guesses = round === 3 ? [1, 2, 3].slice(0, Math.max(0, context - position - tokens)) : [];
      const row = { request: "r", position, ids: [...ids.slice(position, position + tokens), ...guesses] };
      const logits = tokens + guesses.length;
      const others = round < 2 ? [] : [{ request: "other", position: beside, ids: tokensOf(7, draw(count, 5)) }];
      if (beside + 5 > context - 5) others.length = 0;
      beside += others[0]?.ids.length ?? 0;
      const found = await stage.pass(round === 2 ? [...others, { ...row, logits }] : [{ ...row, logits }, ...others]);
      const own = round === 2 ? found.slice(others.length) : found;
      for (let i = 0; i < tokens; i++)
        assert.deepEqual(own[i], expected[position + i], `round ${round}, position ${position + i}`);
      position += tokens;
    }
    stage.drop("r");
    stage.drop("other");
  }
}

/** Hidden states are what the last linear layer makes logits of; they too do not depend on chunks and others. */
async function assertHidden(plan: Plan, stage: LocalStage, ids: readonly number[], what: string): Promise<void> {
  const states = await stage.hidden([{ request: "h", position: 0, ids, logits: 0, hidden: ids.length }]);
  const logits = await stage.pass([{ request: "l", position: 0, ids, logits: ids.length }]);
  const last = plan.vnodes.find(({ id }) => id === generationHead(plan).vnode);
  const [matrix] = last?.parameters.filter(({ shape }) => shape.length === 2 && shape[1] === vocabulary) ?? [];
  if (matrix) {
    const weight = weightsOf(plan)(matrix.name).data as Float32Array;
    const bias = last?.parameters.find(({ shape }) => shape.length === 1 && shape[0] === vocabulary);
    const added = bias && (weightsOf(plan)(bias.name).data as Float32Array);
    for (const [i, state] of states.entries()) {
      const made = Float32Array.from({ length: vocabulary }, (_, j) =>
        state.reduce((sum, value, k) => sum + value * weight[k * vocabulary + j]!, added?.[j] ?? 0),
      );
      assertClose(made, logits[i]!, `${what}: hidden state ${i}`);
    }
  }
  let [position, found] = [0, [] as Float32Array[]];
  for (const tokens of [1, 30, 7, 32]) {
    const beside = { request: "o", position: 0, ids: tokensOf(3, 9), hidden: 0 };
    const row = { request: "c", position, ids: ids.slice(position, position + tokens), logits: 0, hidden: tokens };
    found.push(...(await stage.hidden([beside, row])));
    position += tokens;
  }
  assert.deepEqual(found, states, `${what}: hidden states in chunks, beside others`);
  for (const request of "hlco") stage.drop(request);
}

for (const [kind, openOne] of Object.entries(engines))
  test(`${kind}: rows have the same bits alone, beside others, in chunks and after wrong guesses`, async () => {
    for (const [what, definition] of Object.entries(definitions)) {
      const plan = compileText(definition);
      const executor = openInlineExecutor(await openOne());
      const stage = await LocalStage.open(plan, executor, weightsOf(plan));
      const ids = tokensOf(4, 70);
      const expected = await stage.pass([{ request: "whole", position: 0, ids, logits: ids.length }]);
      for (const [i, row] of (await whole(plan, ids)).entries()) assertClose(expected[i]!, row, `${what} at ${i}`);
      await assertSameBits(stage, ids, expected);
      await assertHidden(plan, stage, ids, what);
      // Behind a beginning that another request has computed; what that one does afterwards does not matter.
      const shared = { request: "whole", positions: 64 };
      const [behind] = await stage.pass([{ request: "late", position: 64, ids: ids.slice(64), shared }]);
      assert.deepEqual(behind, expected[69], what);
      await stage.pass([{ request: "whole", position: 40, ids: [1, 2, 3] }]);
      const [again] = await stage.pass([{ request: "late", position: 69, ids: ids.slice(69) }]);
      assert.deepEqual(again, expected[69], `${what}: shared pages are not written to`);
      await stage.close();
      await executor.close();
    }
  });

test("a pass that does not follow the one before is refused, and so is one beyond the context", async () => {
  const plan = compileText(definitions["a window"] as string);
  const executor = openInlineExecutor(openReferenceEngine());
  const stage = await LocalStage.open(plan, executor, weightsOf(plan));
  await stage.pass([{ request: "r", position: 0, ids: tokensOf(1, 30) }]);
  await assert.rejects(stage.pass([{ request: "r", position: 31, ids: [1] }]), (error) => hasCode(error, "aborted"));
  const shared = { request: "r", positions: 32 };
  await assert.rejects(stage.pass([{ request: "s", position: 32, ids: [1], shared }]), /begins with 32/);
  await assert.rejects(stage.pass([{ request: "r", position: context, ids: [1] }]), /beyond the context/);
  await stage.pass([{ request: "r", position: 30, ids: [1] }]);
});

const wide = `nodes:
  - { id: table, type: embedder, config: { vocab_size: ${vocabulary}, dim: 64, seq_len: ${context}, shared_weight_alias: t } }
  - { id: norm, type: rmsnorm }
  - { id: mix, type: attention, config: { num_heads: 4, num_kv_heads: 2, position_encoding: rope } }
  - { id: up, type: linear, config: { out_dim: 96, bias: true } }
  - { id: gate, type: silu }
  - { id: down, type: linear, config: { out_dim: 64 } }
  - { id: logits, type: linear, config: { tie_weight_alias: t } }
edges: [{ from: table, to: norm }, { from: norm, to: mix }, { from: mix, to: up }, { from: up, to: gate }, { from: gate, to: down }, { from: down, to: logits }]
outputs: [{ name: logits, node_id: logits }]`;

for (const [kind, openOne] of Object.entries(engines))
  if (kind !== "portable")
    for (const bits of [8, 4] as const)
      test(`${kind}: weights of ${bits} bits give rows the same bits too, near those of whole weights`, async () => {
        const plan = compileText(wide);
        const executor = openInlineExecutor(await openOne());
        const stage = await LocalStage.open(plan, executor, weightsOf(plan), bits);
        const ids = tokensOf(4, 70);
        const expected = await stage.pass([{ request: "whole", position: 0, ids, logits: ids.length }]);
        await assertSameBits(stage, ids, expected);
        const exact = await LocalStage.open(plan, executor, weightsOf(plan));
        const floats = await exact.pass([{ request: "exact", position: 0, ids, logits: ids.length }]);
        let [lost, size] = [0, 0];
        for (const [i, row] of floats.entries())
          for (const [j, value] of row.entries()) {
            lost += (expected[i]![j]! - value) ** 2;
            size += value ** 2;
          }
        const share = Math.sqrt(lost / size);
        assert.ok(share > 0 && share < (bits === 8 ? 0.03 : 0.4), `${share} of the logits is lost`);
        await executor.close();
      });
