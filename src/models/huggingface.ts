// Reads a Hugging Face model folder (config.json, safetensors, tokenizer.json) of the Llama, Qwen2 and GPT-2
// families: a network definition of ours, its weights by parameter name, and its vocabulary.

import { basename, join, resolve } from "node:path";
import { fail } from "../core/errors.ts";
import type { Tensor } from "../core/tensor.ts";
import { loadTokenizer, tokenizerTextMax } from "../data/bpe/json.ts";
import { compileText } from "../network/compile.ts";
import type { ChatFormat } from "./chat.ts";
import { readChatFormat } from "./chat-files.ts";
import { type Decoder, readDecoder } from "./config.ts";
import { definitionOf } from "./definition.ts";
import { openWeights, readJson, readText } from "./safetensors.ts";
import { cook, recipesOf } from "./weights.ts";

export interface ImportOptions {
  /** Else made from the folder's name. */
  readonly name?: string;
  /** Tokens of a sample; else what the model was made for, but at most `contextDefault`. */
  readonly context?: number;
}

export interface ImportedModel {
  readonly name: string;
  readonly decoder: Decoder;
  /** YAML; compiles as it stands. */
  readonly definition: string;
  readonly context: number;
  /** Parameter names of the compiled network, in its order. */
  readonly parameters: readonly string[];
  /** One parameter as float32, read when asked for. */
  load(parameter: string): Promise<Tensor>;
  /** tokenizer.json as it stands; undefined if the folder has none. */
  readonly tokenizer: string | undefined;
  readonly chat: ChatFormat;
}

/** Longer contexts cost memory in every activation; whoever wants them asks for them. */
export const contextDefault = 2048;
const configBytesMax = 4 << 20;

export async function importHuggingFace(folder: string, options: ImportOptions = {}): Promise<ImportedModel> {
  const config = await readJson(join(folder, "config.json"), configBytesMax);
  const decoder = readDecoder(config);
  const context = options.context ?? Math.min(decoder.positions, contextDefault);
  if (!Number.isSafeInteger(context) || context < 1 || context > decoder.positions)
    fail(
      "invalid_argument",
      `a context of ${context} is impossible: the model was made for 1 to ${decoder.positions} tokens`,
    );
  const name = options.name ?? nameOf(folder);
  const definition = definitionOf(decoder, name, context);
  const weights = await openWeights(folder);
  const recipes = recipesOf(decoder, weights);
  const shapes = new Map(
    compileText(definition).vnodes.flatMap((vnode) => vnode.parameters.map((one) => [one.name, one.shape])),
  );
  for (const parameter of shapes.keys())
    if (!recipes.has(parameter)) fail("internal", `parameter ${parameter} of an imported model has no source`);
  return {
    name,
    decoder,
    definition,
    context,
    parameters: [...shapes.keys()],
    async load(parameter) {
      const recipe = recipes.get(parameter);
      const shape = shapes.get(parameter);
      if (!recipe || !shape) fail("not_found", `the model has no parameter "${parameter}"`);
      return cook(parameter, recipe, shape, weights);
    },
    tokenizer: await readTokenizer(folder, decoder),
    chat: await readChatFormat(folder, config, decoder.vocabulary),
  };
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
