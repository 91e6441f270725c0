// An adapter of PEFT beside a network of ours: its matrices stand beside those of Transformers, of which we keep several as one
// (queries, keys and values; the two halves of a gate). Adapters of such lie side by side in one of higher rank.

import { join } from "node:path";
import { fail } from "../../core/errors.ts";
import { float32, sameShape, type Tensor } from "../../core/tensor.ts";
import { adaptersOf, withAdapters } from "../../network/adapters.ts";
import { compileText } from "../../network/compile.ts";
import { type Recipe, recipesOf } from "../families/tensors.ts";
import { openWeightsFile, readJson, type StoredWeights } from "../files/safetensors.ts";
import { cook } from "../files/weights.ts";
import { recognise } from "../recognise.ts";
import { type PeftConfig, peftPrefix, readPeftConfig } from "./peft-config.ts";

export interface ImportedAdapter {
  /** Of the base with the adapter. */
  readonly definition: string;
  /** Matrices of the adapter by parameter name; the rest is the base's. */
  readonly matrices: ReadonlyMap<string, Tensor>;
}

const configBytesMax = 4 << 20;

/** One module of Transformers that the adapter stands beside. */
interface Module {
  readonly name: string;
  readonly a: Tensor;
  readonly b: Tensor;
}

/** A matrix of ours, and the modules in it that are adapted; those with the same A lie in one group. */
interface Adapted {
  readonly weight: string;
  readonly recipe: Recipe;
  readonly groups: readonly (readonly Module[])[];
}

export async function importPeft(folder: string, base: string): Promise<ImportedAdapter> {
  const config = readPeftConfig(await readJson(join(folder, "adapter_config.json"), configBytesMax));
  const { weights } = await openWeightsFile(join(folder, "adapter_model.safetensors"));
  const known =
    recognise(base) ??
    fail("failed_precondition", "the base has not the form of a Hugging Face model: PEFT's names mean nothing");
  const { decoder, family, context } = known;
  const recipes = recipesOf(decoder, family, family.tensors.prefixes[0] as string, context);
  const adapted = await adaptedOf(recipes, await modulesOf(weights, recipes, config));
  const rank = config.rank * Math.max(...adapted.map(({ groups }) => groups.length));
  const alpha = (config.alpha / config.rank) * rank;
  const targets = [...new Set(adapted.map(({ weight }) => nodeOf(weight)))];
  const definition = withAdapters(base, { rank, alpha, targets });
  const matrices = new Map<string, Tensor>();
  const byWeight = new Map(adapted.map((one) => [one.weight, one]));
  for (const { weight, a, b } of adaptersOf(compileText(definition))) {
    const recipe = recipes.get(weight) as Recipe;
    const { groups } = byWeight.get(weight) ?? { groups: [] };
    matrices.set(a, joinedA(recipe, groups, config.rank, rank));
    matrices.set(b, await joinedB(recipe, groups, config.rank, rank));
  }
  return { definition, matrices };
}

function nodeOf(weight: string): string {
  return weight.slice(0, weight.indexOf("."));
}

/** Every tensor of the file, by module; what has no place is refused by its name. */
async function modulesOf(
  weights: StoredWeights,
  recipes: ReadonlyMap<string, Recipe>,
  { rank }: PeftConfig,
): Promise<ReadonlyMap<string, Module>> {
  const sizes = new Map<string, { readonly rows: number; readonly width: number }>();
  for (const { kind, from, width } of recipes.values())
    if (kind === "matrix") for (const { name, rows } of from) sizes.set(name.replace(/\.weight$/, ""), { rows, width });
  const modules = new Map<string, Module>();
  for (const name of weights.names) {
    const found = /^(.*)\.lora_([AB])(?:\.default)?\.weight$/.exec(
      name.startsWith(peftPrefix) ? name.slice(peftPrefix.length) : "",
    );
    const module = found?.[1] ?? "";
    const size = sizes.get(module);
    if (!found || !size)
      fail("invalid_argument", `tensor "${name}" of the adapter has no place in the base: is it of another model?`);
    const needed = found[2] === "A" ? [rank, size.width] : [size.rows, rank];
    const shape = weights.shapeOf(name);
    if (!sameShape(shape, needed))
      fail("invalid_argument", `tensor "${name}" is [${shape}], the base and r ask for [${needed}]`);
    if (found[2] === "B") continue;
    const other = name.replace(/lora_A/, "lora_B");
    if (!weights.has(other)) fail("invalid_argument", `tensor "${name}" has no "${other}" beside it`);
    modules.set(module, { name: module, a: await weights.load(name), b: await weights.load(other) });
  }
  for (const name of weights.names)
    if (name.includes("lora_B") && !weights.has(name.replace(/lora_B/, "lora_A")))
      fail("invalid_argument", `tensor "${name}" has no "${name.replace(/lora_B/, "lora_A")}" beside it`);
  if (modules.size === 0) fail("invalid_argument", "adapter_model.safetensors has no adapter in it");
  return modules;
}

async function adaptedOf(
  recipes: ReadonlyMap<string, Recipe>,
  modules: ReadonlyMap<string, Module>,
): Promise<Adapted[]> {
  return [...recipes].flatMap(([weight, recipe]): Adapted[] => {
    if (recipe.kind !== "matrix") return [];
    const groups: Module[][] = [];
    for (const { name } of recipe.from) {
      const module = modules.get(name.replace(/\.weight$/, ""));
      if (module === undefined) continue;
      const alike = groups.find(([first]) => isSame((first as Module).a, module.a));
      if (alike) alike.push(module);
      else groups.push([module]);
    }
    return groups.length > 0 ? [{ weight, recipe, groups }] : [];
  });
}

function isSame({ data: one }: Tensor, { data: other }: Tensor): boolean {
  return one.length === other.length && one.every((value, i) => value === other[i]);
}

/** [in, rank], a group's columns behind the other's. */
function joinedA({ width }: Recipe, groups: Adapted["groups"], each: number, rank: number): Tensor {
  const values = new Float32Array(width * rank);
  for (const [group, [first]] of groups.entries())
    for (let k = 0; k < each; k++)
      for (let i = 0; i < width; i++)
        values[i * rank + group * each + k] = (first as Module).a.data[k * width + i] as number;
  return float32([width, rank], values);
}

/** [rank, out]: stored rows are put together and turned as those of the weights are. */
function joinedB(recipe: Recipe, groups: Adapted["groups"], each: number, rank: number): Promise<Tensor> {
  const places = new Map(groups.flatMap((group, at) => group.map((module) => [module.name, { module, at }] as const)));
  const load = async (name: string) => {
    const { rows } = recipe.from.find((one) => one.name === name) as { rows: number };
    const values = new Float32Array(rows * rank);
    const place = places.get(name.replace(/\.weight$/, ""));
    for (let row = 0; place && row < rows; row++)
      for (let k = 0; k < each; k++)
        values[row * rank + place.at * each + k] = place.module.b.data[row * each + k] as number;
    return float32([rows, rank], values);
  };
  return cook({ ...recipe, width: rank, asOurs: false }, { load });
}
