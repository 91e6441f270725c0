// Which stored tensors make a parameter of ours, by the names of a row. A recipe can be read both ways: import joins
// stored rows, brings them in our order and turns them; export undoes it.

import { type Decoder, isGated } from "../decoder.ts";
import type { Family, TensorNames } from "./row.ts";

export interface Recipe {
  /** A matrix is ours as [in, out]; a vector and a table (rows looked up) are as they are stored. */
  readonly kind: "matrix" | "vector" | "table";
  /** Stored tensors whose rows (outputs) lie one behind the other. */
  readonly from: readonly { readonly name: string; readonly rows: number }[];
  /** Elements of a row: inputs of a matrix, width of a table, 1 for vectors. */
  readonly width: number;
  /** The stored row that is our column i; absent: in their order. */
  readonly order?: Int32Array;
  /** The matrix is stored [in, out], as ours. */
  readonly asOurs?: boolean;
  /** What is stored is less by one. */
  readonly lessOne?: boolean;
  /** Rows in front that are left out; more rows behind do no harm then. */
  readonly skipped?: number;
}

/** By parameter name of the network that definition.ts writes. `prefix`: which of the row's prefixes the weights have. */
export function recipesOf(
  decoder: Decoder,
  { tensors }: Family,
  prefix: string,
  context: number,
): ReadonlyMap<string, Recipe> {
  return new Recipes(decoder, tensors, prefix).all(context);
}

class Recipes {
  readonly #decoder: Decoder;
  readonly #names: TensorNames;
  readonly #prefix: string;
  readonly #recipes = new Map<string, Recipe>();

  constructor(decoder: Decoder, names: TensorNames, prefix: string) {
    this.#decoder = decoder;
    this.#names = names;
    this.#prefix = prefix;
  }

  all(context: number): ReadonlyMap<string, Recipe> {
    const { dim, vocabulary, embeddingDim = dim, learnedPositions, layers, tied, finalNorm } = this.#decoder;
    const names = this.#names;
    const at = (name: string) => `${this.#prefix}${name}`;
    this.#recipes.set("embedder.weight", {
      kind: "table",
      from: [{ name: `${at(names.embedding)}.weight`, rows: vocabulary }],
      width: embeddingDim,
    });
    if (learnedPositions && names.positions !== undefined)
      this.#recipes.set(embeddingDim === dim ? "embedder.position" : "positions.weight", {
        kind: "table",
        from: [{ name: `${at(names.positions)}.weight`, rows: context }],
        width: dim,
        skipped: names.positionsSkipped ?? 0,
      });
    if (this.#decoder.embeddingNorm) this.#norm("embedding_norm", at(names.embeddingNorm ?? ""));
    if (embeddingDim !== dim) {
      this.#linear("project_in", [at(names.projectIn ?? "")], [dim], embeddingDim, false);
      this.#linear("project_out", [at(names.projectOut ?? "")], [embeddingDim], dim, false);
    }
    for (let block = 1; block <= layers; block++) this.#block(block, at(names.layer.replace("{}", String(block - 1))));
    if (finalNorm) this.#norm("head_norm", at(names.finalNorm));
    const { headBias } = this.#decoder;
    if (!tied) this.#linear("lm_head", [names.head], [vocabulary], embeddingDim, headBias, { asOurs: false });
    else if (headBias) this.#vector("lm_head.bias", [`${names.head}.bias`], [vocabulary]);
    return this.#recipes;
  }

  #block(block: number, layer: string): void {
    const { parallel } = this.#decoder;
    const names = this.#names;
    const [attentionNorm, ffnNorm] = (parallel === 2 && names.parallelNorms) || [names.norm, names.ffnNorm];
    const norm = (ours: string, theirs: string | undefined) =>
      this.#norm(`${ours}_${block}`, `${layer}${theirs ?? ""}`);
    const { place } = this.#decoder;
    const late = place === "post" || place === "both";
    if (place !== "post") norm("norm", attentionNorm);
    if (late) norm("post_norm", names.postNorm);
    if (place !== "post" && parallel !== 1) norm("ffn_norm", ffnNorm);
    if (late) norm("ffn_post_norm", names.ffnPostNorm);
    this.#attention(`attention_${block}`, layer);
    if (this.#decoder.experts === undefined) this.#ffn(`${block}`, layer);
    else this.#experts(block, layer);
  }

  #attention(ours: string, layer: string): void {
    const { dim, heads, kvHeads, headDim, qkvBias, outputBias, qkNorm, norm } = this.#decoder;
    const { qkv, output, queryNorm, keyNorm } = this.#names;
    const widths = [heads * headDim, kvHeads * headDim, kvHeads * headDim];
    const whole = widths.reduce((sum, width) => sum + width, 0);
    switch (qkv.kind) {
      case "apart":
        this.#linear(
          `${ours}.qkv`,
          qkv.names.map((name) => layer + name),
          widths,
          dim,
          qkvBias,
        );
        break;
      case "stacked":
        this.#linear(`${ours}.qkv`, [layer + qkv.name], [whole], dim, qkvBias);
        break;
      case "grouped":
        this.#linear(`${ours}.qkv`, [layer + qkv.name], [whole], dim, qkvBias, {
          ...(kvHeads > 1 && { order: groupedOrder(heads, kvHeads, headDim) }),
        });
    }
    this.#linear(`${ours}.output`, [layer + output], [dim], heads * headDim, outputBias);
    if (qkNorm === "none") return;
    const width = (count: number) => (qkNorm === "flat" ? count * headDim : headDim);
    const kind = qkNorm === "head_layernorm" ? "layernorm" : norm;
    this.#norm(`${ours}.q_norm`, `${layer}${queryNorm ?? ""}`, width(heads), kind);
    this.#norm(`${ours}.k_norm`, `${layer}${keyNorm ?? ""}`, width(kvHeads), kind);
  }

  #ffn(block: string, layer: string): void {
    const { dim, ffnDim, ffnBias } = this.#decoder;
    const { up, down } = this.#names;
    const ours = `ffn_up_${block}`;
    switch (up.kind) {
      case "plain":
        this.#linear(ours, [layer + up.name], [ffnDim], dim, ffnBias);
        break;
      case "gated":
        // Our gated activations take the value half first, then the gate.
        this.#linear(ours, [layer + up.up, layer + up.gate], [ffnDim, ffnDim], dim, ffnBias);
        break;
      case "gate-first":
        this.#linear(ours, [layer + up.name], [2 * ffnDim], dim, ffnBias, {
          order: Int32Array.from({ length: 2 * ffnDim }, (_, i) => (i + ffnDim) % (2 * ffnDim)),
        });
    }
    this.#linear(`ffn_down_${block}`, [layer + down], [dim], ffnDim, ffnBias);
  }

  #experts(block: number, layer: string): void {
    const { experts = 0, dim, ffnDim, activation } = this.#decoder;
    const names = this.#names.experts;
    if (names === undefined || !isGated(activation)) return;
    this.#linear(`router_${block}`, [layer + names.router], [experts], dim, false);
    for (let expert = 0; expert < experts; expert++) {
      const at = (name: string) => layer + name.replace("{}", String(expert));
      this.#linear(`expert_up_${block}_${expert}`, [at(names.up), at(names.gate)], [ffnDim, ffnDim], dim, false);
      this.#linear(`expert_down_${block}_${expert}`, [at(names.down)], [dim], ffnDim, false);
    }
  }

  #linear(
    ours: string,
    names: readonly string[],
    rows: readonly number[],
    width: number,
    bias: boolean,
    more: Pick<Recipe, "order" | "asOurs"> = {},
  ): void {
    const from = names.map((name, i) => ({ name: `${name}.weight`, rows: rows[i] as number }));
    this.#recipes.set(`${ours}.weight`, { kind: "matrix", from, width, asOurs: this.#names.turned ?? false, ...more });
    if (bias)
      this.#vector(
        `${ours}.bias`,
        names.map((name) => `${name}.bias`),
        rows,
        more.order,
      );
  }

  #vector(ours: string, names: readonly string[], rows: readonly number[], order?: Int32Array): void {
    const from = names.map((name, i) => ({ name, rows: rows[i] as number }));
    this.#recipes.set(ours, { kind: "vector", from, width: 1, ...(order && { order }) });
  }

  #norm(ours: string, theirs: string, width = this.#decoder.dim, kind = this.#decoder.norm): void {
    const lessOne = this.#names.normsLessOne ?? false;
    const from = [{ name: `${theirs}.weight`, rows: width }];
    this.#recipes.set(`${ours}.weight`, { kind: "vector", from, width: 1, ...(lessOne && { lessOne }) });
    if (kind === "layernorm") this.#vector(`${ours}.bias`, [`${theirs}.bias`], [width]);
  }
}

/** For each key head: its query heads, its key, its value. Ours: all queries, all keys, all values. */
function groupedOrder(heads: number, kvHeads: number, headDim: number): Int32Array {
  const queries = heads / kvHeads;
  const starts = [
    ...Array.from({ length: heads }, (_, head) => Math.floor(head / queries) * (queries + 2) + (head % queries)),
    ...Array.from({ length: kvHeads }, (_, group) => group * (queries + 2) + queries),
    ...Array.from({ length: kvHeads }, (_, group) => group * (queries + 2) + queries + 1),
  ];
  return Int32Array.from(starts.flatMap((start) => Array.from({ length: headDim }, (_, i) => start * headDim + i)));
}
