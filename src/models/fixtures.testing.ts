// Models made up for tests: weights from the tensors' names, as fixtures/make-families.py makes them, written as
// Transformers would; and the two ways to run a model without a network, the whole text at once and token by token.

import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { toBfloat16 } from "../core/numbers/half.ts";
import { elementCount, type Shape, type Tensor } from "../core/tensor.ts";
import { openInlineExecutor } from "../engine/executor.ts";
import { openReferenceEngine } from "../engine/reference.ts";
import { compileText } from "../network/compile.ts";
import { buildInference } from "../network/graphs/graphs.ts";
import type { Plan, VNodePlan } from "../network/plan.ts";
import { LocalStage } from "../vnode/serving/local-stage.testing.ts";

export interface Fixture {
  readonly stored: { readonly dtype: "float32" | "bfloat16"; readonly shards: number };
  readonly config: Readonly<Record<string, unknown>>;
  readonly tensors: Readonly<Record<string, Shape>>;
  readonly ids: readonly number[];
  /** The greedy answer. */
  readonly tokens: readonly number[];
  /** Of every position of `ids`. */
  readonly logits: readonly (readonly number[])[];
}

const families = fileURLToPath(new URL("./fixtures/families/", import.meta.url));

export function fixtureNames(): string[] {
  return readdirSync(families)
    .map((file) => file.replace(/\.ndjson$/, ""))
    .sort();
}

export function readFixture(name: string): Fixture {
  return JSON.parse(readFileSync(join(families, `${name}.ndjson`), "utf8")) as Fixture;
}

/** The same numbers as make-families.py's tensor_values. */
export function tensorValues(name: string, shape: Shape, lessened: boolean): Float32Array {
  let seed = 2166136261;
  for (const byte of Buffer.from(name)) seed = Math.imul(seed ^ byte, 16777619);
  const isNorm = shape.length === 1 && /norm|ln_/.test(name) && name.endsWith("weight");
  return Float32Array.from({ length: elementCount(shape) }, (_, i) => {
    let x = (Math.imul(i, 0x9e3779b9) + seed) >>> 0;
    x ^= x >>> 16;
    x = Math.imul(x, 0x85ebca6b);
    x ^= x >>> 13;
    x = Math.imul(x, 0xc2b2ae35);
    x ^= x >>> 16;
    return (isNorm && !lessened ? 1 : 0) + (((x >>> 0) % 127) - 63) / 128;
  });
}

/** Writes the model that a fixture describes into a folder: config.json, one safetensors file or several. */
export function writeFixture(folder: string, { config, tensors, stored }: Fixture): void {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "config.json"), JSON.stringify(config));
  const names = Object.keys(tensors);
  const lessened = String(config["model_type"]).startsWith("gemma");
  const weightMap: Record<string, string> = {};
  for (let shard = 0; shard < stored.shards; shard++) {
    const file =
      stored.shards === 1 ? "model.safetensors" : `model-0000${shard + 1}-of-0000${stored.shards}.safetensors`;
    const own = names.filter((_, i) => i % stored.shards === shard);
    for (const name of own) weightMap[name] = file;
    const parts = own.map((name) => {
      const values = tensorValues(name, tensors[name] as Shape, lessened);
      const data = stored.dtype === "bfloat16" ? toBfloat16(values) : values;
      return { name, bytes: Buffer.from(data.buffer, data.byteOffset, data.byteLength) };
    });
    writeFileSync(join(folder, file), safetensors(parts, tensors, stored.dtype === "bfloat16" ? "BF16" : "F32"));
  }
  if (stored.shards > 1)
    writeFileSync(join(folder, "model.safetensors.index.json"), JSON.stringify({ weight_map: weightMap }));
}

function safetensors(parts: { name: string; bytes: Buffer }[], shapes: Fixture["tensors"], dtype: string): Buffer {
  const header: Record<string, unknown> = {};
  let end = 0;
  for (const { name, bytes } of parts) {
    header[name] = { dtype, shape: shapes[name], data_offsets: [end, end + bytes.length] };
    end += bytes.length;
  }
  const text = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  return Buffer.concat([length, text, ...parts.map(({ bytes }) => bytes)]);
}

/** A network with its weights, run by the reference engine. */
export class LoneModel {
  readonly plan: Plan;
  readonly #weights: ReadonlyMap<string, Tensor>;
  readonly #engine = openReferenceEngine();

  private constructor(plan: Plan, weights: ReadonlyMap<string, Tensor>) {
    this.plan = plan;
    this.#weights = weights;
  }

  static async open(model: { definition: string; load(name: string): Promise<Tensor> }): Promise<LoneModel> {
    const plan = compileText(model.definition);
    const weights = new Map<string, Tensor>();
    for (const { parameters } of plan.vnodes)
      for (const { name } of parameters) weights.set(name, await model.load(name));
    return new LoneModel(plan, weights);
  }

  get context(): number {
    return this.plan.inputs?.shape[0] ?? 0;
  }

  #vnodes(): VNodePlan[] {
    return this.plan.order.map((id) => this.plan.vnodes.find((vnode) => vnode.id === id)!);
  }

  #weightsOf(vnode: VNodePlan): Record<string, Tensor> {
    const feeds: Record<string, Tensor> = {};
    for (const { name } of vnode.parameters) feeds[name] = this.#weights.get(name)!;
    for (const edge of this.plan.edges)
      if (edge.to === vnode.id && edge.kind === "tie") feeds[edge.toPort] = this.#weights.get(edge.fromPort)!;
    return feeds;
  }

  /** Values by the ports that receive them. */
  #sent(values: Readonly<Record<string, Tensor>>): Record<string, Tensor> {
    const sent: Record<string, Tensor> = {};
    for (const edge of this.plan.edges) {
      const value = values[edge.fromPort];
      if (value && edge.kind === "activation") sent[edge.toPort] = value;
    }
    return sent;
  }

  /** Logits [positions, vocabulary] of every position of a text as long as the context. */
  async logits(ids: readonly number[]): Promise<Float32Array> {
    let values: Record<string, Tensor> = { inputs: int32([1, ids.length], ids) };
    for (const vnode of this.#vnodes()) {
      const program = await this.#engine.load(buildInference(this.plan, vnode, { microbatch: 1 }));
      const outputs = await program.run({ ...values, ...this.#weightsOf(vnode) });
      values = { ...values, ...outputs, ...this.#sent(outputs) };
    }
    return values[this.plan.outputs[0]!.port]!.data as Float32Array;
  }

  #stage: Promise<LocalStage> | undefined;

  /** The likeliest tokens after a prompt, with caches: the prompt at once, then token by token. */
  async greedy(prompt: readonly number[], count: number): Promise<number[]> {
    this.#stage ??= LocalStage.open(this.plan, openInlineExecutor(this.#engine), (name) => this.#weights.get(name)!);
    const stage = await this.#stage;
    const answer: number[] = [];
    let next: readonly number[] = prompt;
    let position = 0;
    while (answer.length < count) {
      const [logits] = await stage.pass([{ request: "r", position, ids: next }]);
      position += next.length;
      let best = 0;
      for (let i = 1; i < logits!.length; i++) if (logits![i]! > logits![best]!) best = i;
      answer.push(best);
      next = [best];
    }
    return answer;
  }
}

function int32(shape: Shape, values: Iterable<number>): Tensor {
  return { dtype: "int32", shape, data: Int32Array.from(values) };
}
