// Writes a network as a folder that Hugging Face's programs read: config.json, model.safetensors with the family's own
// names and layouts, the tokenizer and what it says about chats. One VNode's weights are in memory at a time.

import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fail, messageOf } from "../../core/errors.ts";
import type { VNodeId } from "../../core/ids.ts";
import type { Tensor } from "../../core/tensor.ts";
import { loadTokenizer } from "../../data/bpe/json.ts";
import { compileText } from "../../network/compile.ts";
import type { ChatFormat } from "../chats/chat.ts";
import { families } from "../families/table.ts";
import { recipesOf } from "../families/tensors.ts";
import { type Recognised, recognise } from "../recognise.ts";
import { storedShapes, uncook } from "./weights.ts";
import { safetensorsHeader, type WriteProgress, writeSafetensors } from "./write-safetensors.ts";

export interface HuggingFaceContent {
  readonly definition: string;
  readonly tokenizer?: string | undefined;
  readonly chat?: ChatFormat | undefined;
  /** Weights of one VNode by parameter name; asked for in the plan's order, one VNode at a time. */
  weightsOf(vnode: VNodeId): Promise<ReadonlyMap<string, Tensor>>;
}

/** Gives the size of the weights; fails before anything is written if the network has the form of no family. */
export async function writeHuggingFace(
  folder: string,
  content: HuggingFaceContent,
  onProgress: (progress: WriteProgress) => void = () => {},
): Promise<{ readonly family: string; readonly bytes: number }> {
  const recognised =
    recognise(content.definition) ??
    fail(
      "failed_precondition",
      `the network has not the form of a Hugging Face model (${families.map(({ model }) => model).join(", ")}): it can be exported in dcnr's own form`,
    );
  await mkdir(folder, { recursive: true }).catch((thrown) =>
    fail("failed_precondition", `the folder ${folder} cannot be made: ${messageOf(thrown)}`, thrown),
  );
  const bytes = await writeWeights(join(folder, "model.safetensors"), recognised, content, onProgress);
  const json = (name: string, value: unknown) => writeFile(join(folder, name), jsonText(value));
  await json("config.json", { ...recognised.config, ...tokenIds(content) });
  await writeTokenizer(folder, content, recognised.context, json);
  return { family: recognised.family.model, bytes };
}

/** Keys whose values readers in Python want to have a point, even whole ones. */
const floats =
  /^(\s*"(?:\w*theta|rope_local_base_freq|\w*factor|beta_\w+|\w+_softcapping|\w+_multiplier|logits_scaling|rotary_pct)": -?\d+)(,?)$/gm;

function jsonText(value: unknown): string {
  return `${JSON.stringify(value, null, 2).replace(floats, "$1.0$2")}\n`;
}

function writeWeights(
  path: string,
  { decoder, family, context }: Recognised,
  content: HuggingFaceContent,
  onProgress: (progress: WriteProgress) => void,
): Promise<number> {
  const plan = compileText(content.definition);
  const recipes = recipesOf(decoder, family, family.tensors.prefixes[0] as string, context);
  const names = plan.vnodes.flatMap((vnode) => vnode.parameters.map(({ name }) => name));
  const header = safetensorsHeader(names.flatMap((name) => [...storedShapes(recipeNamed(recipes, name))]));
  const stored = (tensor: Tensor, name: string) => uncook(recipeNamed(recipes, name), tensor).values();
  const weightsOf = (vnode: VNodeId) => content.weightsOf(vnode);
  return writeSafetensors(path, { header, plan, weightsOf, stored, onProgress });
}

function recipeNamed(recipes: ReturnType<typeof recipesOf>, name: string) {
  return recipes.get(name) ?? fail("internal", `parameter ${name} has no place in the family's files`);
}

/** Ids that generation ends and begins with, for programs that read no chat format of ours. */
function tokenIds({ tokenizer, chat }: HuggingFaceContent): Record<string, unknown> {
  const ends = chat?.endTokens ?? [];
  const begin = tokenizer !== undefined && chat?.bosToken ? loadTokenizer(tokenizer).idOf(chat.bosToken) : undefined;
  return {
    eos_token_id: ends.length === 0 ? null : ends.length === 1 ? ends[0] : ends,
    bos_token_id: begin ?? null,
    pad_token_id: null,
  };
}

async function writeTokenizer(
  folder: string,
  { tokenizer, chat }: HuggingFaceContent,
  context: number,
  json: (name: string, value: unknown) => Promise<void>,
): Promise<void> {
  const { eos_token_id, bos_token_id } = tokenIds({ tokenizer, chat } as HuggingFaceContent);
  await json("generation_config.json", {
    ...(eos_token_id === null ? {} : { eos_token_id }),
    ...(bos_token_id === null ? {} : { bos_token_id }),
  });
  if (tokenizer === undefined) return;
  await writeFile(join(folder, "tokenizer.json"), tokenizer);
  await json("tokenizer_config.json", {
    tokenizer_class: "PreTrainedTokenizerFast",
    model_max_length: context,
    clean_up_tokenization_spaces: false,
    ...(chat?.bosToken && { bos_token: chat.bosToken }),
    ...(chat?.eosToken && { eos_token: chat.eosToken }),
    ...(chat?.template && { chat_template: chat.template }),
  });
}
