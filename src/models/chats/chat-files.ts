// The chat format of a Hugging Face model folder: the template from chat_template.jinja or tokenizer_config.json, the
// tokens that end an answer from generation_config.json or config.json.

import { join } from "node:path";
import { hasCode } from "../../core/errors.ts";
import type { ConfigJson } from "../families/config-reader.ts";
import { readJson, readText } from "../files/safetensors.ts";
import { type ChatFormat, parseChatFormat } from "./chat.ts";
import { templateLengthMax } from "./chat-template.ts";

/** Files that list every added token have some megabytes. */
const configBytesMax = 32 << 20;

export async function readChatFormat(folder: string, config: ConfigJson, vocabulary: number): Promise<ChatFormat> {
  const tokenizer = (await optional(readJson(join(folder, "tokenizer_config.json"), configBytesMax))) ?? {};
  const generation = (await optional(readJson(join(folder, "generation_config.json"), configBytesMax))) ?? {};
  const template = await optional(readText(join(folder, "chat_template.jinja"), 4 * templateLengthMax));
  const ends = endTokensOf(generation, vocabulary);
  const format: ChatFormat = {
    template: template ?? templateOf(tokenizer["chat_template"]),
    bosToken: tokenOf(tokenizer["bos_token"]),
    eosToken: tokenOf(tokenizer["eos_token"]),
    endTokens: ends.length > 0 ? ends : endTokensOf(config, vocabulary),
  };
  return parseChatFormat(JSON.stringify(format));
}

async function optional<T>(reading: Promise<T>): Promise<T | undefined> {
  return reading.catch((thrown) => {
    if (hasCode(thrown, "not_found")) return undefined;
    throw thrown;
  });
}

/** One template, or several with names. */
function templateOf(value: unknown): string {
  if (typeof value === "string") return value;
  const named = (Array.isArray(value) ? value : []) as { name?: unknown; template?: unknown }[];
  const { template } = named.find(({ name }) => name === "default") ?? {};
  return typeof template === "string" ? template : "";
}

/** A token as text, or as an object that has it. */
function tokenOf(value: unknown): string {
  const content = value !== null && typeof value === "object" ? (value as { content?: unknown }).content : value;
  return typeof content === "string" ? content : "";
}

function endTokensOf(config: ConfigJson, vocabulary: number): number[] {
  const value = config["eos_token_id"];
  const ids = Array.isArray(value) ? value : [value];
  return ids.filter((id): id is number => Number.isInteger(id) && id >= 0 && id < vocabulary);
}
