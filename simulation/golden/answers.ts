// What served models answer, kept like the roots of training: logits and chosen tokens on the engines whose bits are ours alone, and what
// the native one is given to compute, whose bits belong to the processor.

import { readFileSync, writeFileSync } from "node:fs";
import { sha256 } from "../../src/core/hash.ts";
import { fillNormal, randomKey } from "../../src/core/numbers/random.ts";
import { bytesOf, elementCount, float32, type Tensor } from "../../src/core/tensor.ts";
import { openInlineExecutor } from "../../src/engine/executor.ts";
import { runtimeGraph } from "../../src/engine/onnx/onnx-rows.ts";
import { withRuntimeRows } from "../../src/engine/onnx/runtime-rows.ts";
import { openEngine } from "../../src/engine/open.ts";
import { encodeOnnx } from "../../src/graph/onnx.ts";
import { quantiseUnit, type WeightBits } from "../../src/graph/quantise.ts";
import type { UnitPlan } from "../../src/graph/unit.ts";
import { Chooser } from "../../src/models/choosing.ts";
import { greedy, type SamplingSettings } from "../../src/models/sampling.ts";
import { compileText } from "../../src/network/compile.ts";
import { buildUnit } from "../../src/network/graphs/unit.ts";
import type { Plan } from "../../src/network/plan.ts";
import { LocalStage } from "../../src/vnode/serving/local-stage.testing.ts";

const [vocabulary, context, answerTokens] = [47, 80, 24];
const prompt = Array.from({ length: 37 }, (_, i) => (i * i + 3 * i) % vocabulary);

/** Every kind of step that units have: a tied table, both norms, grouped heads that are turned, windows, gates, biases. */
const definition = `nodes:
  - { id: table, type: embedder, config: { vocab_size: ${vocabulary}, dim: 64, seq_len: ${context}, shared_weight_alias: t } }
  - { id: first_norm, type: rmsnorm }
  - { id: turned, type: attention, config: { num_heads: 4, num_kv_heads: 2, position_encoding: rope } }
  - { id: wide, type: linear, config: { out_dim: 128 } }
  - { id: gated, type: swiglu }
  - { id: second_norm, type: layernorm }
  - { id: near, type: attention, config: { num_heads: 2, window: 21, position_encoding: alibi, score_cap: 5 } }
  - { id: up, type: linear, config: { out_dim: 96, bias: true } }
  - { id: bend, type: gelu }
  - { id: down, type: linear, config: { out_dim: 64 } }
  - { id: last_norm, type: rmsnorm }
  - { id: logits, type: linear, config: { tie_weight_alias: t } }
edges: [{ from: table, to: first_norm }, { from: first_norm, to: turned }, { from: turned, to: wide }, { from: wide, to: gated }, { from: gated, to: second_norm }, { from: second_norm, to: near }, { from: near, to: up }, { from: up, to: bend }, { from: bend, to: down }, { from: down, to: last_norm }, { from: last_norm, to: logits }]
outputs: [{ name: logits, node_id: logits }]`;

const samplings: Readonly<Record<string, SamplingSettings>> = {
  likeliest: greedy,
  drawn: {
    ...{ temperature: 1.3, topK: 20, topP: 0.9, seed: 17, logitBias: { 3: 1.5 } },
    ...{ presencePenalty: 0.4, frequencyPenalty: 0.2, repetitionPenalty: 1.1 },
  },
};

export interface GoldenAnswer {
  /** SHA-256 of the logits of prompt and answer. */
  readonly logits: string;
  readonly tokens: readonly number[];
}

export interface GoldenAnswers {
  readonly answerBits: number;
  /** By engine, format of weights and way of choosing. */
  readonly answers: Readonly<Record<string, GoldenAnswer>>;
  /** SHA-256 of the graphs with their weights that the native engine loads, by format of weights. */
  readonly native: Readonly<Record<string, string>>;
}

const formats = { float32: undefined, "8bit": 8, "4bit": 4 } as const;
/** The portable engine takes weights as they are. */
const engines = { reference: ["float32", "8bit", "4bit"], portable: ["float32"] } as const;

function weight(shape: readonly number[], name: string): Tensor {
  const data = new Float32Array(elementCount(shape));
  fillNormal(data, randomKey("golden answers", name), 0.4);
  return float32(shape, data);
}

export async function computeAnswers(): Promise<Pick<GoldenAnswers, "answers" | "native">> {
  const plan = compileText(definition);
  const shapes = new Map(plan.vnodes.flatMap(({ parameters }) => parameters.map(({ name, shape }) => [name, shape])));
  const load = (name: string) => weight(shapes.get(name) as readonly number[], name);
  const answers: Record<string, GoldenAnswer> = {};
  for (const [kind, kinds] of Object.entries(engines))
    for (const format of kinds) {
      const executor = openInlineExecutor(await openEngine(kind as keyof typeof engines));
      const stage = await LocalStage.open(plan, executor, load, formats[format]);
      for (const [way, settings] of Object.entries(samplings))
        answers[`${kind} ${format} ${way}`] = await answer(stage, settings);
      await executor.close();
    }
  const native = Object.entries(formats).map(([format, bits]) => [format, loadedByNative(plan, load, bits)] as const);
  return { answers, native: Object.fromEntries(native) };
}

async function answer(stage: LocalStage, sampling: SamplingSettings): Promise<GoldenAnswer> {
  const chooser = new Chooser({ sampling, endTokens: new Set() });
  const produced: number[] = [];
  const seen: Float32Array[] = [];
  let ids: readonly number[] = prompt;
  for (let position = 0; produced.length < answerTokens; ) {
    const rows = await stage.pass([{ request: "r", position, ids, logits: ids.length }]);
    seen.push(...rows);
    position += ids.length;
    const left = answerTokens - produced.length - 1;
    const { token } = chooser.choose(rows.at(-1) as Float32Array, { position, prompt, produced, left });
    produced.push(token);
    ids = [token];
  }
  stage.drop("r");
  return { logits: sha256(...seen.map((data) => new Uint8Array(data.buffer))), tokens: produced };
}

function loadedByNative(plan: Plan, load: (name: string) => Tensor, bits: WeightBits | undefined): string {
  const graphs = plan.vnodes.flatMap((vnode) => {
    const tied = plan.edges.filter(({ kind, to }) => kind === "tie" && to === vnode.id);
    const weights = Object.fromEntries([
      ...vnode.parameters.map(({ name }) => [name, load(name)] as const),
      ...tied.map(({ toPort, fromPort }) => [toPort, load(fromPort)] as const),
    ]);
    const unit: UnitPlan = buildUnit(plan, vnode);
    const few = bits === undefined ? { plan: unit, weights } : quantiseUnit(unit, weights, bits);
    return few.plan.steps.map((step) => {
      if (step.kind === "attend") return new Uint8Array(0);
      const own = Object.fromEntries(step.weights.map((name) => [name, few.weights[name] as Tensor]));
      const graph = runtimeGraph(withRuntimeRows(step.graph), own);
      return Buffer.concat([encodeOnnx(graph), ...Object.values(own).map(bytesOf)]);
    });
  });
  return sha256(...graphs);
}

const file = new URL("./answers.json", import.meta.url);

export function readGoldenAnswers(): GoldenAnswers {
  return JSON.parse(readFileSync(file, "utf8")) as GoldenAnswers;
}

export function writeGoldenAnswers(answers: GoldenAnswers): void {
  const lines = JSON.stringify(answers, null, 2).replaceAll(/\[[\d,\s]+\]/g, (list) => list.replaceAll(/\s+/g, " "));
  writeFileSync(file, `${lines}\n`);
}

/** What is no longer as it was, a sentence each. */
export function answerChanges(known: Partial<GoldenAnswers>, now: Pick<GoldenAnswers, "answers" | "native">): string[] {
  const changes: string[] = [];
  for (const [what, { logits, tokens }] of Object.entries(now.answers)) {
    const before = known.answers?.[what];
    if (before === undefined) continue;
    const isSaid = before.tokens.join() === tokens.join();
    if (before.logits !== logits || !isSaid)
      changes.push(`the answer of ${what} has other ${isSaid ? "logits" : "tokens"}`);
  }
  for (const [format, hash] of Object.entries(now.native))
    if ((known.native?.[format] ?? hash) !== hash)
      changes.push(`the native engine is given other graphs or weights for ${format}`);
  return changes;
}
