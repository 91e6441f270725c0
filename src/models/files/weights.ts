// Weights between the files of a family and our parameters, by recipe: one parameter in memory at a time. What the
// config promises and the files do not hold, or hold and nobody asked for, is refused by the tensor's name.

import { assert } from "../../core/assert.ts";
import { fail } from "../../core/errors.ts";
import { elementCount, float32, type Shape, sameShape, type Tensor } from "../../core/tensor.ts";
import type { Family } from "../families/row.ts";
import type { Recipe } from "../families/tensors.ts";
import type { StoredWeights } from "./safetensors.ts";

/** The prefix under which the weights are stored. */
export function prefixOf({ tensors }: Family, weights: Pick<StoredWeights, "has">): string {
  const { prefixes, embedding } = tensors;
  return prefixes.find((prefix) => weights.has(`${prefix}${embedding}.weight`)) ?? (prefixes[0] as string);
}

function storedShape({ kind, width, asOurs }: Recipe, rows: number): Shape {
  if (kind === "vector") return [rows];
  return asOurs ? [width, rows] : [rows, width];
}

/** Every tensor that recipes take is there and has its shape; every tensor that is there is taken or known to be idle. */
export function checkWeights(
  recipes: ReadonlyMap<string, Recipe>,
  weights: Pick<StoredWeights, "names" | "has" | "shapeOf">,
  { tensors, model }: Family,
  tied: boolean,
): void {
  const taken = new Set<string>();
  for (const [parameter, recipe] of recipes)
    for (const { name, rows } of recipe.from) {
      const found = weights.shapeOf(name);
      const needed = storedShape(recipe, rows + (recipe.skipped ?? 0));
      const enough = recipe.skipped !== undefined && (found[0] ?? 0) >= (needed[0] ?? 0);
      if (!sameShape(found, enough ? [found[0] ?? 0, ...needed.slice(1)] : needed))
        fail(
          "invalid_argument",
          `tensor "${name}" is [${found}], but config.json asks for [${needed}] (parameter ${parameter}): config.json and weights disagree`,
        );
      taken.add(name);
    }
  const isIdle = (name: string) =>
    (tied && name === `${tensors.head}.weight`) ||
    tensors.leftovers?.some((ending) => name.endsWith(ending)) ||
    tensors.others?.some((beginning) => name.startsWith(beginning));
  const idle = weights.names.find((name) => !taken.has(name) && !isIdle(name));
  if (idle !== undefined)
    fail(
      "invalid_argument",
      `tensor "${idle}" [${weights.shapeOf(idle)}] has no place in a ${model} model of this config: config.json and weights disagree`,
    );
}

/** A parameter of ours from what is stored. */
export async function cook(recipe: Recipe, weights: Pick<StoredWeights, "load">): Promise<Tensor> {
  const { kind, from, width, order, asOurs, lessOne, skipped = 0 } = recipe;
  const rows = from.reduce((sum, part) => sum + part.rows, 0);
  const parts: Tensor[] = [];
  for (const { name } of from) parts.push(await weights.load(name));
  if (kind === "table") {
    const [table] = parts as [Tensor];
    return float32([rows, width], (table.data as Float32Array).subarray(skipped * width, (skipped + rows) * width));
  }
  const joined = joinRows(parts, rows * width);
  if (kind === "vector") {
    const values = order === undefined ? joined : Float32Array.from(order, (row) => joined[row] as number);
    if (lessOne) for (let i = 0; i < values.length; i++) values[i] = (values[i] as number) + 1;
    return float32([rows], values);
  }
  assert(!asOurs || order === undefined, "matrices stored as ours are in our order");
  if (asOurs) return float32([width, rows], joined);
  const ours = new Float32Array(rows * width);
  for (let column = 0; column < rows; column++) {
    const row = order === undefined ? column : (order[column] as number);
    for (let i = 0; i < width; i++) ours[i * rows + column] = joined[row * width + i] as number;
  }
  return float32([width, rows], ours);
}

function joinRows(parts: readonly Tensor[], length: number): Float32Array {
  const joined = new Float32Array(length);
  let at = 0;
  for (const { data } of parts) {
    joined.set(data as Float32Array, at);
    at += data.length;
  }
  assert(at === length, "the parts of a recipe have their shapes");
  return joined;
}

/** Names and shapes of what `uncook` gives, in its order. */
export function storedShapes(recipe: Recipe): Map<string, Shape> {
  return new Map(recipe.from.map(({ name, rows }) => [name, storedShape(recipe, rows + (recipe.skipped ?? 0))]));
}

/** The stored tensors that a parameter of ours came from: `cook` undone. */
export function uncook(recipe: Recipe, parameter: Tensor): Map<string, Tensor> {
  const { kind, from, width, order, asOurs, lessOne, skipped = 0 } = recipe;
  const data = parameter.data as Float32Array;
  const rows = from.reduce((sum, part) => sum + part.rows, 0);
  assert(elementCount(parameter.shape) === rows * width, "a parameter has the shape of its recipe");
  if (kind === "table") {
    const table = new Float32Array((skipped + rows) * width);
    table.set(data, skipped * width);
    return new Map([[from[0]?.name as string, float32([skipped + rows, width], table)]]);
  }
  if (asOurs && kind === "matrix") return new Map([[from[0]?.name as string, parameter]]);
  const joined = new Float32Array(rows * width);
  for (let column = 0; column < rows; column++) {
    const row = order === undefined ? column : (order[column] as number);
    for (let i = 0; i < width; i++) joined[row * width + i] = data[i * rows + column] as number;
  }
  if (lessOne) for (let i = 0; i < joined.length; i++) joined[i] = (joined[i] as number) - 1;
  let at = 0;
  return new Map(
    from.map(({ name, rows: count }) => {
      const part = joined.subarray(at * width, (at + count) * width);
      at += count;
      return [name, float32(storedShape(recipe, count), part)];
    }),
  );
}
