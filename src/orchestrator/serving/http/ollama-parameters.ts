// What may stand in a request made for Ollama: what is obeyed, what changes no answer, and nothing else.

import { check, type Harmless, is, isEmptyList, isFlag, isText, never, obeyed } from "./openai-parameters.ts";

type Body = Readonly<Record<string, unknown>>;

const both: readonly (readonly [string, Harmless])[] = [
  ["model", obeyed],
  ["stream", isFlag],
  ["format", obeyed],
  ["options", obeyed],
  ["think", is(false)],
  // How long a model stays loaded: ours stay until they are stopped.
  ["keep_alive", obeyed],
];

const chatRequest = new Map<string, Harmless>([...both, ["messages", obeyed], ["tools", obeyed]]);
const generateRequest = new Map<string, Harmless>([
  ...both,
  ["prompt", obeyed],
  ["system", obeyed],
  ["raw", isFlag],
  ["suffix", is("")],
  ["template", is("")],
  ["context", isEmptyList],
  ["images", isEmptyList],
]);

const embedding: readonly (readonly [string, Harmless])[] = [
  ["model", obeyed],
  ["keep_alive", obeyed],
  ["options", (value) => typeof value === "object" && value !== null && Object.keys(value).length === 0],
];
const embedRequest = new Map<string, Harmless>([
  ...embedding,
  ["input", obeyed],
  ["truncate", isFlag],
  ["dimensions", obeyed],
]);
const embedOneRequest = new Map<string, Harmless>([...embedding, ["prompt", obeyed]]);

const optionNames = new Map<string, Harmless>([
  ...["temperature", "top_k", "top_p", "seed", "stop", "num_predict", "repeat_penalty"].map(
    (name) => [name, obeyed] as const,
  ),
  ["frequency_penalty", obeyed],
  ["presence_penalty", obeyed],
  ["num_ctx", never],
  ["min_p", is(0)],
]);

const messageFields = new Map<string, Harmless>([
  ["role", obeyed],
  ["content", isText],
  ["tool_calls", obeyed],
  ["tool_name", isText],
  ["images", isEmptyList],
  ["thinking", is("")],
]);

const callFields = new Map<string, Harmless>([
  ["function", obeyed],
  ["id", isText],
  ["type", is("function")],
]);

export const checkOllamaRequest = (body: Body, chat: boolean) =>
  check(body, chat ? chatRequest : generateRequest, "", chat ? "/api/chat" : "/api/generate");
export const checkOllamaEmbed = (body: Body) => check(body, embedRequest, "", "/api/embed");
export const checkOllamaEmbedOne = (body: Body) => check(body, embedOneRequest, "", "/api/embeddings");
export const checkOllamaOptions = (fields: Body) => check(fields, optionNames, "options.", "options");
export const checkOllamaMessage = (fields: Body, place: string) =>
  check(fields, messageFields, `${place}.`, "a message");
export const checkOllamaCall = (fields: Body, place: string) => check(fields, callFields, `${place}.`, "a call");
