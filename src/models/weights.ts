// Which stored tensors make a parameter of ours, and how: matrices are turned, joined side by side or cut.

import { assert } from "../core/assert.ts";
import { fail } from "../core/errors.ts";
import { elementCount, type Shape, type Tensor } from "../core/tensor.ts";
import type { Decoder } from "./config.ts";
import type { StoredWeights } from "./safetensors.ts";

/** A parameter from stored tensors. */
export type Recipe =
  /** As it is, or its first rows. */
  | { readonly kind: "copy"; readonly from: string }
  /** Stored [out, in], ours [in, out]; several lie side by side. */
  | { readonly kind: "turned"; readonly from: readonly string[] }
  /** Vectors one behind the other. */
  | { readonly kind: "joined"; readonly from: readonly string[] };

export function recipesOf(decoder: Decoder, weights: Pick<StoredWeights, "has">): Map<string, Recipe> {
  return decoder.family === "gpt2" ? gpt2Recipes(decoder, weights) : llamaRecipes(decoder);
}

const copy = (from: string): Recipe => ({ kind: "copy", from });
const turned = (...from: string[]): Recipe => ({ kind: "turned", from });
const joined = (...from: string[]): Recipe => ({ kind: "joined", from });

function llamaRecipes(decoder: Decoder): Map<string, Recipe> {
  const recipes = new Map<string, Recipe>([["embedder.weight", copy("model.embed_tokens.weight")]]);
  for (let block = 1; block <= decoder.layers; block++) {
    const layer = `model.layers.${block - 1}`;
    const heads = ["q", "k", "v"].map((one) => `${layer}.self_attn.${one}_proj`);
    recipes.set(`norm_${block}.weight`, copy(`${layer}.input_layernorm.weight`));
    recipes.set(`attention_${block}.qkv.weight`, turned(...heads.map((one) => `${one}.weight`)));
    if (decoder.qkvBias) recipes.set(`attention_${block}.qkv.bias`, joined(...heads.map((one) => `${one}.bias`)));
    recipes.set(`attention_${block}.output.weight`, turned(`${layer}.self_attn.o_proj.weight`));
    if (decoder.outputBias) recipes.set(`attention_${block}.output.bias`, copy(`${layer}.self_attn.o_proj.bias`));
    recipes.set(`ffn_norm_${block}.weight`, copy(`${layer}.post_attention_layernorm.weight`));
    // Our swiglu takes the value half first, then the gate.
    const up = ["up", "gate"].map((one) => `${layer}.mlp.${one}_proj`);
    recipes.set(`ffn_up_${block}.weight`, turned(...up.map((one) => `${one}.weight`)));
    recipes.set(`ffn_down_${block}.weight`, turned(`${layer}.mlp.down_proj.weight`));
    if (decoder.ffnBias) {
      recipes.set(`ffn_up_${block}.bias`, joined(...up.map((one) => `${one}.bias`)));
      recipes.set(`ffn_down_${block}.bias`, copy(`${layer}.mlp.down_proj.bias`));
    }
  }
  recipes.set("head_norm.weight", copy("model.norm.weight"));
  if (!decoder.tied) recipes.set("lm_head.weight", turned("lm_head.weight"));
  return recipes;
}

/** GPT-2 stores its matrices [in, out], as we do, and queries, keys and values in one. */
function gpt2Recipes(decoder: Decoder, weights: Pick<StoredWeights, "has">): Map<string, Recipe> {
  const prefix = weights.has("transformer.wte.weight") ? "transformer." : "";
  const recipes = new Map<string, Recipe>([
    ["embedder.weight", copy(`${prefix}wte.weight`)],
    ["embedder.position", copy(`${prefix}wpe.weight`)],
  ]);
  const both = (ours: string, theirs: string) => {
    for (const part of ["weight", "bias"]) recipes.set(`${ours}.${part}`, copy(`${prefix}${theirs}.${part}`));
  };
  for (let block = 1; block <= decoder.layers; block++) {
    const layer = `h.${block - 1}`;
    both(`norm_${block}`, `${layer}.ln_1`);
    both(`attention_${block}.qkv`, `${layer}.attn.c_attn`);
    both(`attention_${block}.output`, `${layer}.attn.c_proj`);
    both(`ffn_norm_${block}`, `${layer}.ln_2`);
    both(`ffn_up_${block}`, `${layer}.mlp.c_fc`);
    both(`ffn_down_${block}`, `${layer}.mlp.c_proj`);
  }
  both("head_norm", "ln_f");
  if (!decoder.tied) recipes.set("lm_head.weight", turned("lm_head.weight"));
  return recipes;
}

/** The parameter's values, checked against the shape that the network needs. */
export async function cook(name: string, recipe: Recipe, shape: Shape, weights: StoredWeights): Promise<Tensor> {
  const sources = recipe.kind === "copy" ? [recipe.from] : recipe.from;
  const tensors: Tensor[] = [];
  for (const source of sources) tensors.push(await weights.load(source));
  const data = combine(recipe.kind, tensors, shape);
  if (!data) {
    const found = sources.map((source) => `${source} [${weights.shapeOf(source)}]`).join(", ");
    fail(
      "invalid_argument",
      `parameter ${name} has the shape [${shape}], which ${found} does not give: config.json and weights disagree`,
    );
  }
  return { dtype: "float32", shape, data };
}

function combine(kind: Recipe["kind"], tensors: readonly Tensor[], shape: Shape): Float32Array | undefined {
  const [first] = tensors;
  assert(first !== undefined, "a recipe has a source");
  switch (kind) {
    case "copy": {
      const sameRows = first.shape.slice(1).join() === shape.slice(1).join() && first.shape.length === shape.length;
      if (!sameRows || (first.shape[0] as number) < (shape[0] as number)) return undefined;
      return (first.data as Float32Array).subarray(0, elementCount(shape));
    }
    case "joined": {
      if (shape.length !== 1 || tensors.some((tensor) => tensor.shape.length !== 1)) return undefined;
      const joinedData = new Float32Array(elementCount(shape));
      let at = 0;
      for (const { data } of tensors) {
        if (at + data.length > joinedData.length) return undefined;
        joinedData.set(data as Float32Array, at);
        at += data.length;
      }
      return at === joinedData.length ? joinedData : undefined;
    }
    case "turned":
      return turnedSideBySide(tensors, shape);
  }
}

function turnedSideBySide(tensors: readonly Tensor[], shape: Shape): Float32Array | undefined {
  const [rows, columns] = shape as [number, number];
  const widths = tensors.map((tensor) => tensor.shape[0] as number);
  const fits = tensors.every((tensor) => tensor.shape.length === 2 && tensor.shape[1] === rows);
  if (shape.length !== 2 || !fits || widths.reduce((sum, width) => sum + width, 0) !== columns) return undefined;
  const data = new Float32Array(rows * columns);
  let start = 0;
  tensors.forEach((tensor, i) => {
    const width = widths[i] as number;
    const source = tensor.data as Float32Array;
    for (let out = 0; out < width; out++)
      for (let row = 0; row < rows; row++) data[row * columns + start + out] = source[out * rows + row] as number;
    start += width;
  });
  return data;
}
