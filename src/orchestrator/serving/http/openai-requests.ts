// OpenAI-compatible requests, believed in nothing: every field is checked, and an error names it.

import { parseId } from "../../../core/ids.ts";
import { randomKey, uniformAt } from "../../../core/numbers/random.ts";
import { topLogprobsMax } from "../../../models/choosing.ts";
import { anyObject } from "../../../models/grammar/schema.ts";
import { biasedTokensMax, logitBiasMax, penaltyMax, type SamplingSettings } from "../../../models/sampling.ts";
import { adapterMark } from "../../records/speakers.ts";
import {
  maxTokensDefault,
  maxTokensMax,
  NoSuchModel,
  stopWordLengthMax,
  stopWordsMax,
  type TextRequest,
} from "../text.ts";
import { refuse } from "./openai-errors.ts";
import { conversationOf, toolsOf } from "./openai-messages.ts";
import {
  checkChat,
  checkCompletion,
  checkJsonSchema,
  checkResponseFormat,
  checkStreamOptions,
  isRecord,
} from "./openai-parameters.ts";
import { isTokenList } from "./works.ts";

export interface CompletionRequest {
  readonly model: string;
  /** One for each choice of the answer: all of the first prompt, then all of the second, as OpenAI numbers them. */
  readonly texts: readonly TextRequest[];
  /** How many choices in a row are of one prompt, which is counted once. */
  readonly choicesPerPrompt: number;
  readonly stream: boolean;
  readonly includeUsage: boolean;
}

type Body = Readonly<Record<string, unknown>>;
type PromptOf = TextRequest["prompt"];

/** Of one request: prompts times answers to each. More would hold a connection for as long as a small network works. */
const choicesMax = 128;

export function parseCompletion(body: Body, seed: number): CompletionRequest {
  checkCompletion(body);
  const echo = flag(body["echo"], "echo");
  const topLogprobs = completionLogprobs(body["logprobs"]);
  if (echo && topLogprobs !== undefined)
    refuse("echo", "echo with logprobs is not supported: prompts have no probabilities here", "unsupported_parameter");
  return common(body, promptsOf(body["prompt"]), seed, { ...(echo ? { echo } : {}), ...told(topLogprobs) });
}

export function parseChat(body: Body, seed: number): CompletionRequest {
  checkChat(body);
  const turns = conversationOf(body["messages"]);
  const { tools, mustCall } = toolsOf(body);
  const schema = schemaOf(body["response_format"]);
  if (mustCall && schema !== undefined)
    refuse("response_format", "response_format and a call that must be made exclude each other: leave one of them out");
  const wishes = {
    ...told(chatLogprobs(body)),
    ...(mustCall ? { mustCall } : {}),
    ...(body["parallel_tool_calls"] === false ? { oneCall: true } : {}),
    ...(schema === undefined ? {} : { schema }),
  };
  // As OpenAI's: a turn of which nothing is said ends where the model or its context ends it.
  return common(body, [{ turns, ...(tools.length > 0 ? { tools } : {}) }], seed, wishes, maxTokensMax);
}

/** The schema that an answer must fit, as text; undefined: it may be anything. */
function schemaOf(format: unknown): string | undefined {
  if (format === undefined || format === null) return undefined;
  if (!isRecord(format)) refuse("response_format", "response_format must be an object with a type");
  checkResponseFormat(format);
  const { type, json_schema: described } = format;
  if (type !== "json_schema") {
    if (described !== undefined && described !== null)
      refuse("response_format.json_schema", "response_format.json_schema needs the type json_schema");
    if (type === undefined)
      refuse("response_format.type", "response_format.type is missing", "missing_required_parameter");
    return type === "json_object" ? anyObject : undefined;
  }
  if (!isRecord(described))
    refuse("response_format.json_schema", "response_format.json_schema must be an object with a schema");
  checkJsonSchema(described);
  const schema = described["schema"] ?? {};
  if (!isRecord(schema))
    refuse("response_format.json_schema.schema", "response_format.json_schema.schema must be an object");
  return JSON.stringify(schema);
}

/** What the older endpoint allows, beside the chosen token. */
const completionLogprobsMax = 5;

/** A count, of which 0 asks for the chosen tokens alone. */
function completionLogprobs(value: unknown): number | undefined {
  if (value === undefined || value === null || value === false) return undefined;
  return whole({ logprobs: value }, "logprobs", 0, 0, completionLogprobsMax);
}

function chatLogprobs(body: Body): number | undefined {
  const wanted = flag(body["logprobs"], "logprobs");
  const top = whole(body, "top_logprobs", 0, 0, topLogprobsMax);
  if (!wanted && top > 0) refuse("top_logprobs", "top_logprobs needs logprobs: set it to true");
  return wanted ? top : undefined;
}

function told(topLogprobs: number | undefined): Pick<TextRequest, "topLogprobs"> {
  return topLogprobs === undefined ? {} : { topLogprobs };
}

/** Texts or lists of token ids, one or several; `name` is where they stand. */
export function promptsOf(prompt: unknown, name = "prompt"): (string | number[])[] {
  if (prompt === undefined || prompt === null) refuse(name, `${name} is missing`, "missing_required_parameter");
  if (typeof prompt === "string" || isTokenList(prompt)) return [prompt];
  if (!Array.isArray(prompt) || prompt.length === 0 || !(prompt.every(isText) || prompt.every(isTokenList)))
    refuse(name, `${name} must be a string, a list of token ids, or a list of several strings or lists of token ids`);
  return prompt;
}

/** What all requests have in common, however they are written down. */
export function common(
  body: Body,
  prompts: readonly PromptOf[],
  seed: number,
  wishes: Pick<TextRequest, "topLogprobs" | "echo" | "schema" | "mustCall" | "oneCall">,
  maxTokensStandard = maxTokensDefault,
): CompletionRequest {
  const model = modelOf(body["model"]);
  const choicesPerPrompt = whole(body, "n", 1, 1, choicesMax);
  const choices = prompts.length * choicesPerPrompt;
  if (choices > choicesMax)
    refuse(
      choicesPerPrompt > 1 ? "n" : "prompt",
      `${choices} answers are asked for, at most ${choicesMax} may be in one request: send several`,
    );
  const settings = sampling(body, seed);
  const shared = { model, maxTokens: maxTokens(body, maxTokensStandard), stop: stopWords(body["stop"]), ...wishes };
  const stream = flag(body["stream"], "stream");
  return {
    model,
    texts: Array.from({ length: choices }, (_, index) => ({
      ...shared,
      prompt: prompts[Math.floor(index / choicesPerPrompt)] as PromptOf,
      sampling: { ...settings, seed: choiceSeed(settings.seed, index) },
    })),
    choicesPerPrompt,
    stream,
    includeUsage: includesUsage(body["stream_options"], stream),
  };
}

export function modelOf(value: unknown): string {
  if (value === undefined || value === null)
    refuse("model", "model is missing: /v1/models lists what is served", "missing_required_parameter");
  if (typeof value !== "string" || value === "") refuse("model", "model must name a served model: see /v1/models");
  try {
    // NAME, or NAME:ADAPTER.
    const [name = "", ...adapter] = value.split(adapterMark);
    for (const part of [name, ...adapter]) parseId<string>(part, "the model's name");
    return value;
  } catch {
    // Clients ask for names that cannot be ours, such as "owner/model": there is no such model, whatever the letters.
    throw new NoSuchModel(`there is no model "${value.slice(0, 80)}": see /v1/models`);
  }
}

/** The first choice is what a request for one would get; the others follow from the same seed. */
function choiceSeed(seed: number, index: number): number {
  return index === 0 ? seed : Math.floor(uniformAt(randomKey("choice", seed), index) * Number.MAX_SAFE_INTEGER);
}

function includesUsage(options: unknown, stream: boolean): boolean {
  if (options === undefined || options === null) return false;
  if (!isRecord(options)) refuse("stream_options", "stream_options must be an object");
  if (!stream) refuse("stream_options", "stream_options is for streamed answers: set stream, or leave it out");
  checkStreamOptions(options);
  return flag(options["include_usage"], "stream_options.include_usage");
}

function maxTokens(body: Body, standard: number): number {
  const [older, newer] = [body["max_tokens"] ?? undefined, body["max_completion_tokens"] ?? undefined];
  if (older !== undefined && newer !== undefined && older !== newer)
    refuse("max_tokens", "max_tokens and max_completion_tokens differ: send one of them");
  const name = newer === undefined ? "max_tokens" : "max_completion_tokens";
  const value = newer ?? older ?? standard;
  if (!Number.isInteger(value) || (value as number) < 1) refuse(name, `${name} must be a whole number of at least 1`);
  if ((value as number) > maxTokensMax)
    refuse(name, `${name} is ${String(value)}, at most ${maxTokensMax} are allowed`);
  return value as number;
}

function sampling(body: Body, seed: number): SamplingSettings {
  const topP = bounded(body, "top_p", 1, 0, 1);
  const topK = whole(body, "top_k", 0, 0, 1_000_000);
  return {
    temperature: bounded(body, "temperature", 1, 0, 2),
    // No share of the probability leaves the likeliest token alone; further on, 0 would mean no limit.
    ...(topP === 0 ? { topP: 1, topK: 1 } : { topP, topK }),
    repetitionPenalty: bounded(body, "repetition_penalty", 1, 0.1, 10),
    frequencyPenalty: bounded(body, "frequency_penalty", 0, -penaltyMax, penaltyMax),
    presencePenalty: bounded(body, "presence_penalty", 0, -penaltyMax, penaltyMax),
    logitBias: logitBias(body["logit_bias"] ?? {}),
    seed: whole(body, "seed", seed, 0, Number.MAX_SAFE_INTEGER),
  };
}

function logitBias(value: unknown): Record<number, number> {
  if (!isRecord(value)) refuse("logit_bias", "logit_bias must be an object of token ids and numbers");
  const entries = Object.entries(value);
  if (entries.length > biasedTokensMax)
    refuse("logit_bias", `logit_bias has ${entries.length} tokens, at most ${biasedTokensMax} are allowed`);
  for (const [token, bias] of entries)
    if (!/^(0|[1-9]\d{0,8})$/.test(token) || typeof bias !== "number" || !(Math.abs(bias) <= logitBiasMax))
      refuse("logit_bias", `logit_bias must give token ids numbers from -${logitBiasMax} to ${logitBiasMax}`);
  return value as Record<number, number>;
}

function whole(body: Body, name: string, standard: number, least: number, most: number): number {
  const value = body[name] ?? standard;
  if (typeof value !== "number" || !Number.isInteger(value) || value < least || value > most)
    refuse(name, `${name} must be a whole number from ${least} to ${most}`);
  return value;
}

function bounded(body: Body, name: string, standard: number, least: number, most: number): number {
  const value = body[name] ?? standard;
  if (typeof value !== "number" || !(value >= least && value <= most))
    refuse(name, `${name} must be a number from ${least} to ${most}`);
  return value;
}

function flag(value: unknown, name: string): boolean {
  if (value !== undefined && value !== null && typeof value !== "boolean")
    refuse(name, `${name} must be true or false`);
  return value === true;
}

function stopWords(value: unknown): string[] {
  if (value === undefined || value === null) return [];
  const words: unknown[] = Array.isArray(value) ? value : [value];
  if (words.length > stopWordsMax) refuse("stop", `stop may have at most ${stopWordsMax} words`);
  return words.map((word) => {
    if (typeof word !== "string" || word === "" || word.length > stopWordLengthMax)
      refuse("stop", `stop words must be strings of 1 to ${stopWordLengthMax} characters`);
    return word;
  });
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}
