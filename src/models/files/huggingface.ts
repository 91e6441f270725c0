// Reads a Hugging Face model folder (config.json, safetensors, tokenizer.json) of any family of the table: a network
// definition of ours, its weights by parameter name, and its vocabulary.

import { basename, join, resolve } from "node:path";
import { fail } from "../../core/errors.ts";
import { elementCount, sameShape, type Tensor } from "../../core/tensor.ts";
import { loadTokenizer, tokenizerTextMax } from "../../data/bpe/json.ts";
import { compileText } from "../../network/compile.ts";
import type { ChatFormat } from "../chats/chat.ts";
import { readChatFormat } from "../chats/chat-files.ts";
import type { Decoder } from "../decoder.ts";
import { definitionOf } from "../definition.ts";
import { readDecoder } from "../families/read.ts";
import type { Family } from "../families/row.ts";
import { recipesOf } from "../families/tensors.ts";
import { type ModelPooling, readPooling } from "./pooling-files.ts";
import { openWeights, readJson, readText, type StoredWeights } from "./safetensors.ts";
import { checkWeights, cook, prefixOf } from "./weights.ts";

export interface ImportOptions {
  /** Else made from the folder's name. */
  readonly name?: string;
  /** Tokens of a sample; else what the model was made for, but at most 2048. */
  readonly context?: number;
}

export interface ImportedModel {
  readonly name: string;
  readonly decoder: Decoder;
  /** YAML; compiles as it stands. */
  readonly definition: string;
  readonly context: number;
  /** Tokens that the model was made for; `context` may be fewer. */
  readonly positions: number;
  /** Parameter names of the compiled network, in its order. */
  readonly parameters: readonly string[];
  /** One parameter as float32, read when asked for. */
  load(parameter: string): Promise<Tensor>;
  /** tokenizer.json as it stands; undefined if the folder has none. */
  readonly tokenizer: string | undefined;
  readonly chat: ChatFormat;
  /** Which hidden states stand for a text; undefined if the folder does not say. */
  readonly pooling?: ModelPooling | undefined;
}

const configBytesMax = 4 << 20;

export async function importHuggingFace(folder: string, options: ImportOptions = {}): Promise<ImportedModel> {
  const config = await readJson(join(folder, "config.json"), configBytesMax);
  const read = readDecoder(config, options.context);
  const weights = await openWeights(folder);
  const model = await modelOf(read, options.name ?? nameOf(folder), weights);
  return {
    ...model,
    tokenizer: await readTokenizer(folder, read.decoder),
    chat: await readChatFormat(folder, config, read.decoder.vocabulary),
    pooling: await readPooling(folder),
  };
}

/** A network with its weights, from whatever files they are stored in under the family's names. */
export async function modelOf(
  { decoder, family, context }: { decoder: Decoder; family: Family; context: number },
  name: string,
  weights: StoredWeights,
): Promise<Omit<ImportedModel, "tokenizer" | "chat">> {
  const definition = definitionOf(decoder, name, context);
  const recipes = recipesOf(decoder, family, prefixOf(family, weights), context);
  const parameters = compileText(definition).vnodes.flatMap((vnode) => vnode.parameters);
  for (const { name, shape } of parameters) {
    const recipe = recipes.get(name);
    const size = recipe && recipe.width * recipe.from.reduce((sum, { rows }) => sum + rows, 0);
    if (size !== elementCount(shape)) fail("internal", `parameter ${name} of an imported model has no source`);
  }
  checkWeights(recipes, weights, family, decoder.tied);
  await checkTied(decoder, family, weights);
  return {
    name,
    decoder,
    definition,
    context,
    positions: decoder.positions,
    parameters: parameters.map((parameter) => parameter.name),
    async load(parameter) {
      const recipe = recipes.get(parameter);
      if (!recipe) fail("not_found", `the model has no parameter "${parameter}"`);
      return cook(recipe, weights);
    },
  };
}

/** Some files store the head although it is the embedding: then both must be the same. */
async function checkTied({ tied }: Decoder, family: Family, weights: StoredWeights): Promise<void> {
  const head = `${family.tensors.head}.weight`;
  if (!tied || !weights.has(head)) return;
  const embedding = `${prefixOf(family, weights)}${family.tensors.embedding}.weight`;
  const [one, other] = [await weights.load(head), await weights.load(embedding)];
  if (!sameShape(one.shape, other.shape) || one.data.some((value, i) => value !== other.data[i]))
    fail(
      "invalid_argument",
      `config.json says tie_word_embeddings, but tensor "${head}" differs from "${embedding}": config.json and weights disagree`,
    );
}

function nameOf(folder: string): string {
  const name = basename(resolve(folder))
    .replace(/[^A-Za-z0-9_.-]+/g, "-")
    .replace(/^[^A-Za-z0-9]+/, "");
  return name === "" ? "model" : name.slice(0, 100);
}

async function readTokenizer(folder: string, decoder: Decoder): Promise<string | undefined> {
  const text = await readText(join(folder, "tokenizer.json"), tokenizerTextMax).catch((thrown) => {
    if ((thrown as { code?: string }).code === "not_found") return undefined;
    throw thrown;
  });
  if (text === undefined) return undefined;
  const { vocabularySize } = loadTokenizer(text);
  if (vocabularySize > decoder.vocabulary)
    fail(
      "invalid_argument",
      `tokenizer.json has ${vocabularySize} tokens, the model only ${decoder.vocabulary}: they do not belong together`,
    );
  return text;
}
