// Generation with caches against the whole forward pass: the logits of every position are the same, whether the
// prompt comes at once, in parts, or beside other requests of other lengths.

import assert from "node:assert/strict";
import { test } from "node:test";
import { t1, transformerYaml } from "../../../examples/generate.ts";
import { hasCode } from "../../core/errors.ts";
import { elementCount, float32, type Tensor } from "../../core/tensor.ts";
import { openReferenceEngine } from "../../engine/reference.ts";
import { compileText } from "../compile.ts";
import type { Plan, VNodePlan } from "../plan.ts";
import { buildGeneration, generationFeeds } from "./generation.ts";
import { buildInference } from "./graphs.ts";
import { initialValues } from "./trainer.testing.ts";

const context = 6;
const pieces = transformerYaml({ ...t1, name: "small", blocks: 2, heads: 2, headDim: 4, context, vocabulary: 11 });
const grouped = `nodes:
  - { id: table, type: embedder, config: { vocab_size: 11, dim: 8, seq_len: ${context}, position_encoding: learned, shared_weight_alias: t } }
  - { id: mix, type: attention, config: { num_heads: 4, num_kv_heads: 2, position_encoding: rope, rope_scaling: linear, rope_factor: 2 } }
  - { id: norm, type: rmsnorm, config: { colocate_group: head } }
  - { id: loss, type: tied_lm_head_ce, config: { tie_weight_alias: t, colocate_group: head } }
edges: [{ from: table, to: mix }, { from: mix, to: norm }, { from: norm, to: loss }]`;

class Generator {
  readonly plan: Plan;
  readonly #engine = openReferenceEngine();
  readonly #weights = new Map<string, Tensor>();
  /** By request and output name: [heads, positions, width]. */
  readonly #caches = new Map<string, Float32Array[]>();

  constructor(text: string) {
    this.plan = compileText(text);
    for (const { parameters } of this.plan.vnodes)
      for (const { name, shape, initial } of parameters)
        this.#weights.set(
          name,
          float32(
            shape,
            initialValues(name, shape, initial.kind === "normal" ? { kind: "normal", deviation: 0.5 } : initial, 5),
          ),
        );
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

  /** Logits of every position, by the whole forward pass. */
  async whole(ids: readonly number[]): Promise<Float32Array> {
    let feeds: Record<string, Tensor> = { inputs: { dtype: "int32", shape: [1, context], data: Int32Array.from(ids) } };
    for (const vnode of this.#vnodes()) {
      const program = await this.#engine.load(buildInference(this.plan, vnode, { microbatch: 1 }));
      feeds = { ...feeds, ...(await program.run({ ...feeds, ...this.#weightsOf(vnode) })) };
    }
    return feeds[this.plan.outputs[0]!.port]!.data as Float32Array;
  }

  /** Appends `parts[i]` to request i and gives the logits of the last new token of each. */
  async extend(parts: readonly (readonly number[])[], lengths: readonly number[]): Promise<Float32Array> {
    const requests = parts.length;
    const tokens = parts[0]!.length;
    const options = { requests, tokens, cached: Math.max(...lengths) };
    const { positions, keyPositions, mask } = generationFeeds(options, lengths);
    let feeds: Record<string, Tensor> = {
      inputs: { dtype: "int32", shape: [requests, tokens], data: Int32Array.from(parts.flat()) },
      positions: { dtype: "int32", shape: [requests, tokens], data: positions },
      key_positions: { dtype: "int32", shape: [requests, options.cached + tokens], data: keyPositions },
      mask: float32([requests, tokens, options.cached + tokens], mask),
      select: { dtype: "int32", shape: [requests], data: Int32Array.from(parts, (_, i) => (i + 1) * tokens - 1) },
    };
    for (const vnode of this.#vnodes()) {
      const { graph, caches } = buildGeneration(this.plan, vnode, options);
      const program = await this.#engine.load(graph);
      const past: Record<string, Tensor> = {};
      for (const { keyInput, keyOutput, valueInput, valueOutput, heads, width } of caches) {
        past[keyInput] = this.#past(keyOutput, options.cached, requests, heads, width);
        past[valueInput] = this.#past(valueOutput, options.cached, requests, heads, width);
      }
      const results = await program.run({ ...feeds, ...this.#weightsOf(vnode), ...past });
      for (const { keyOutput, valueOutput, heads, width } of caches)
        for (const name of [keyOutput, valueOutput]) this.#append(name, results[name]!, heads, tokens, width);
      feeds = { ...feeds, ...results };
    }
    return feeds["logits"]!.data as Float32Array;
  }

  #append(name: string, { data, shape }: Tensor, heads: number, tokens: number, width: number): void {
    const caches = this.#caches.get(name) ?? Array.from({ length: shape[0]! }, () => new Float32Array());
    const size = heads * tokens * width;
    this.#caches.set(
      name,
      caches.map((cache, request) => {
        const length = cache.length / (heads * width);
        const grown = new Float32Array((length + tokens) * heads * width);
        for (let head = 0; head < heads; head++) {
          grown.set(
            cache.subarray(head * length * width, (head + 1) * length * width),
            head * (length + tokens) * width,
          );
          const from = request * size + head * tokens * width;
          grown.set(
            (data as Float32Array).subarray(from, from + tokens * width),
            (head * (length + tokens) + length) * width,
          );
        }
        return grown;
      }),
    );
  }

  /** The caches of all requests, padded in front to `cached` positions. */
  #past(name: string, cached: number, requests: number, heads: number, width: number): Tensor {
    const shape = [requests, heads, cached, width];
    const data = new Float32Array(elementCount(shape));
    for (const [request, cache] of (this.#caches.get(name) ?? []).entries()) {
      const length = cache.length / (heads * width);
      for (let head = 0; head < heads; head++)
        data.set(
          cache.subarray(head * length * width, (head + 1) * length * width),
          ((request * heads + head) * cached + cached - length) * width,
        );
    }
    return float32(shape, data);
  }

  /** Requests of different lengths come to stand side by side. */
  static join(generators: readonly Generator[]): Generator {
    const joined = generators[0]!;
    for (const [name, caches] of joined.#caches)
      joined.#caches.set(name, [...caches, ...generators.slice(1).flatMap((other) => other.#caches.get(name)!)]);
    return joined;
  }
}

function assertNear(found: Float32Array, expected: Float32Array, what: string): void {
  assert.equal(found.length, expected.length, what);
  for (const [i, value] of expected.entries())
    assert.ok(Math.abs(value - found[i]!) < 1e-4, `${what} [${i}]: ${found[i]} is not ${value}`);
}

const ids = [3, 1, 4, 1, 5, 9];
const row = (logits: Float32Array, position: number) => logits.subarray(position * 11, (position + 1) * 11);

test("a prompt at once and then token by token gives the logits of the whole pass", async () => {
  const whole = await new Generator(pieces).whole(ids);
  const generator = new Generator(pieces);
  assertNear(await generator.extend([ids.slice(0, 3)], [0]), row(whole, 2), "prefill");
  for (let at = 3; at < context; at++)
    assertNear(await generator.extend([[ids[at]!]], [at]), row(whole, at), `token ${at}`);
});

test("grouped keys, learned positions and a head with its cost in one node generate as well", async () => {
  const at = async (parts: readonly number[][]) => {
    const generator = new Generator(grouped);
    let done = 0;
    let logits = new Float32Array();
    for (const part of parts) {
      logits = Float32Array.from(await generator.extend([part], [done]));
      done += part.length;
    }
    return logits;
  };
  assertNear(await at([ids.slice(0, 2), ids.slice(2, 3), ids.slice(3)]), await at([ids]), "in parts and at once");
});

const variants: Readonly<Record<string, string>> = {
  "a window": "num_heads: 4, num_kv_heads: 2, window: 2, position_encoding: rope",
  "a window without positions": "num_heads: 2, window: 3",
  alibi: "num_heads: 4, num_kv_heads: 2, position_encoding: alibi",
  "alibi rounded to bfloat16": "num_heads: 2, position_encoding: alibi, alibi_bfloat16: true, alibi_scale: 0.5",
  "caps and scales of scores": "num_heads: 2, score_cap: 0.5, score_scale: 2",
  "norms of queries and keys": "num_heads: 4, num_kv_heads: 2, qk_norm: head, position_encoding: rope",
  "norms over all heads": "num_heads: 4, num_kv_heads: 2, qk_norm: flat, position_encoding: rope",
  "rotation of a part": "num_heads: 2, position_encoding: rope, rope_dims: 2, rope_amplitude: 1.5",
  yarn: "num_heads: 1, position_encoding: rope, rope_scaling: yarn, rope_factor: 4, rope_beta_fast: 2, rope_beta_slow: 0.5, rope_original_positions: 16",
};
for (const [what, config] of Object.entries(variants))
  test(`attention with ${what} generates token by token, in parts, and beside a shorter request`, async () => {
    const text = `nodes:
  - { id: table, type: embedder, config: { vocab_size: 11, dim: 8, seq_len: ${context} } }
  - { id: mix, type: attention, config: { ${config} } }
  - { id: logits, type: linear, config: { out_dim: 11 } }
edges: [{ from: table, to: mix }, { from: mix, to: logits }]
outputs: [{ name: logits, node_id: logits }]`;
    const whole = await new Generator(text).whole(ids);
    const [one, other] = [new Generator(text), new Generator(text)];
    assertNear(await one.extend([ids.slice(0, 3)], [0]), row(whole, 2), "prefill");
    assertNear(await one.extend([ids.slice(3, 5)], [3]), row(whole, 4), "two more");
    await other.extend([ids.slice(0, 1)], [0]);
    const logits = await Generator.join([one, other]).extend([[ids[5]!], [ids[1]!]], [5, 1]);
    assertNear(logits.subarray(0, 11), row(whole, 5), "the long request");
    assertNear(logits.subarray(11), row(whole, 1), "the short request");
  });

test("requests of different lengths side by side do not see each other", async () => {
  const whole = await new Generator(pieces).whole(ids);
  const other = [2, 7, 1, 8, 2, 8];
  const wholeOther = await new Generator(pieces).whole(other);
  const [long, short] = [new Generator(pieces), new Generator(pieces)];
  await long.extend([ids.slice(0, 4)], [0]);
  await short.extend([other.slice(0, 1)], [0]);
  const joined = Generator.join([long, short]);
  const logits = await joined.extend([[ids[4]!], [other[1]!]], [4, 1]);
  assertNear(logits.subarray(0, 11), row(whole, 4), "the long request");
  assertNear(logits.subarray(11), row(wholeOther, 1), "the short request");
});

test("a network whose nodes mix positions is refused by name", () => {
  const plan = compileText(grouped.replace("num_kv_heads: 2,", "causal: false,"));
  const vnode = plan.vnodes.find(({ id }) => id === "mix")!;
  assert.throws(
    () => buildGeneration(plan, vnode, { requests: 1, tokens: 1, cached: 0 }),
    (thrown: Error) => hasCode(thrown, "failed_precondition") && /node "mix" is not causal/.test(thrown.message),
  );
});
