// What may stand in an OpenAI request. What is not here is unknown, what is here and cannot be done is refused by its
// name: an answer that leaves out in silence what was asked for is a wrong answer. Values that ask for nothing pass.

import { refuse } from "./openai-errors.ts";

type Body = Readonly<Record<string, unknown>>;
/** Whether a value asks for nothing that we do not do; null always does so. */
export type Harmless = (value: unknown, body: Body) => boolean;

export const is =
  (...values: readonly unknown[]): Harmless =>
  (value) =>
    values.includes(value);
export const isText: Harmless = (value) => typeof value === "string";
export const isFlag: Harmless = (value) => typeof value === "boolean";
export const isEmptyList: Harmless = (value) => Array.isArray(value) && value.length === 0;
const isTextAlone: Harmless = (value) => Array.isArray(value) && value.length === 1 && value[0] === "text";
export const never: Harmless = () => false;
/** Read, checked and obeyed by openai-requests.ts. */
export const obeyed: Harmless = () => true;

const both: readonly (readonly [string, Harmless])[] = [
  ...[
    ...["model", "max_tokens", "max_completion_tokens", "n", "stop", "stream", "stream_options"],
    ...[
      "temperature",
      "top_p",
      "top_k",
      "repetition_penalty",
      "seed",
      "frequency_penalty",
      "presence_penalty",
      "logit_bias",
    ],
  ].map((name) => [name, obeyed] as const),
  // Names for the caller's own books: no answer depends on them.
  ["user", isText],
  ["safety_identifier", isText],
  ["metadata", isRecord],
  ["service_tier", is("auto", "default")],
];

const completionParameters = new Map<string, Harmless>([
  ...both,
  ["prompt", obeyed],
  ["echo", obeyed],
  ["suffix", is("")],
  ["logprobs", obeyed],
  // As many as are wanted, so that none is left out.
  ["best_of", (value, body) => value === (body["n"] ?? 1)],
]);

const chatParameters = new Map<string, Harmless>([
  ...both,
  ["messages", obeyed],
  ["logprobs", obeyed],
  ["top_logprobs", obeyed],
  ["response_format", obeyed],
  ["modalities", isTextAlone],
  ["tools", obeyed],
  ["tool_choice", obeyed],
  ["parallel_tool_calls", isFlag],
  ["functions", isEmptyList],
  ["function_call", is("none", "auto")],
  ["reasoning_effort", is("none")],
  ["verbosity", is("medium")],
  ["audio", never],
  ["moderation", never],
  ["prediction", never],
  ["web_search_options", never],
  // Nothing is stored and nothing is cached by request: what is answered is the same.
  ["store", isFlag],
  ["prompt_cache_key", isText],
  ["prompt_cache_options", isRecord],
  ["prompt_cache_retention", isText],
]);

const responseParameters = new Map<string, Harmless>([
  ...[
    ...["model", "input", "instructions", "max_output_tokens", "stream", "temperature", "top_p", "seed", "text"],
    ...["tools", "tool_choice"],
  ].map((name) => [name, obeyed] as const),
  ["parallel_tool_calls", isFlag],
  ["user", isText],
  ["safety_identifier", isText],
  ["metadata", isRecord],
  ["service_tier", is("auto", "default")],
  ["truncation", is("disabled")],
  ["include", isEmptyList],
  ["background", is(false)],
  ["top_logprobs", is(0)],
  ["stream_options", (value) => isRecord(value) && Object.keys(value).length === 0],
  // Nothing is stored: whoever wants to go on sends the conversation.
  ["store", isFlag],
  ["previous_response_id", never],
  ["conversation", never],
  ["prompt", never],
  ["reasoning", never],
  ["max_tool_calls", never],
  ["prompt_cache_key", isText],
  ["prompt_cache_retention", isText],
]);

const embeddingParameters = new Map<string, Harmless>([
  ["model", obeyed],
  ["input", obeyed],
  ["encoding_format", is("float", "base64")],
  // Vectors are as wide as the network: openai-embeddings.ts refuses what is not.
  ["dimensions", (value) => Number.isInteger(value)],
  ["user", isText],
]);

const responseText = new Map<string, Harmless>([
  ["format", obeyed],
  ["verbosity", is("medium")],
]);

const messageFields = new Map<string, Harmless>([
  ["role", obeyed],
  ["content", obeyed],
  ["name", never],
  ["tool_calls", (value, message) => message["role"] === "assistant" || isEmptyList(value, message)],
  ["tool_call_id", (_, message) => message["role"] === "tool"],
  ["function_call", never],
  ["annotations", isEmptyList],
  ["audio", never],
  ["refusal", never],
]);

const partFields = new Map<string, Harmless>([
  ["type", obeyed],
  ["text", obeyed],
]);

const callFields = new Map<string, Harmless>([
  ["id", obeyed],
  ["type", is("function")],
  ["function", obeyed],
  ["index", (value) => Number.isInteger(value)],
]);

const toolFields = new Map<string, Harmless>([
  ["type", is("function")],
  ["function", obeyed],
]);

const toolFunctionFields = new Map<string, Harmless>([
  ["name", obeyed],
  ["description", isText],
  ["parameters", obeyed],
  ["strict", isFlag],
]);

const responseFormat = new Map<string, Harmless>([
  ["type", is("text", "json_object", "json_schema")],
  ["json_schema", obeyed],
]);

const jsonSchema = new Map<string, Harmless>([
  ["name", isText],
  ["description", isText],
  ["schema", obeyed],
  // Always so.
  ["strict", isFlag],
]);

const streamOptions = new Map<string, Harmless>([
  ["include_usage", obeyed],
  ["include_obfuscation", is(false)],
]);

export const checkCompletion = (body: Body) => check(body, completionParameters, "", "/v1/completions");
export const checkChat = (body: Body) => check(body, chatParameters, "", "/v1/chat/completions");
export const checkResponse = (body: Body) => check(body, responseParameters, "", "/v1/responses");
export const checkEmbedding = (body: Body) => check(body, embeddingParameters, "", "/v1/embeddings");
export const checkResponseText = (fields: Body) => check(fields, responseText, "text.", "text");
export const checkMessage = (fields: Body, place: string) => check(fields, messageFields, `${place}.`, "a message");
export const checkPart = (fields: Body, place: string) => check(fields, partFields, `${place}.`, "a text part");
export const checkCall = (fields: Body, place: string) => check(fields, callFields, `${place}.`, "a call");
export const checkTool = (fields: Body, place: string) => check(fields, toolFields, `${place}.`, "a tool");
export const checkToolFunction = (fields: Body, place: string) =>
  check(fields, toolFunctionFields, `${place}.`, "a tool's function");
export const checkResponseFormat = (fields: Body) =>
  check(fields, responseFormat, "response_format.", "response_format");
export const checkJsonSchema = (fields: Body) =>
  check(fields, jsonSchema, "response_format.json_schema.", "response_format.json_schema");
export const checkStreamOptions = (fields: Body) => check(fields, streamOptions, "stream_options.", "stream_options");

/** How much of a caller's own words an error repeats. */
const nameShownMax = 80;

export function check(body: Body, known: ReadonlyMap<string, Harmless>, prefix: string, where: string): void {
  for (const [name, value] of Object.entries(body)) {
    const isHarmless = known.get(name);
    const param = prefix + name.slice(0, nameShownMax);
    if (!isHarmless) refuse(param, `${param} is not a parameter of ${where}: leave it out`, "unknown_parameter");
    if (value === null || isHarmless(value, body)) continue;
    refuse(param, `${param} is not supported with this value: leave it out`, "unsupported_parameter");
  }
}

export function isRecord(value: unknown): value is Body {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}
