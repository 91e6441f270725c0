// OpenAI-compatible requests, believed in nothing: every field is checked, and an error names it.

import { fail } from "../../core/errors.ts";
import type { ChatTurn } from "../../models/chat-template.ts";
import {
  maxTokensDefault,
  maxTokensMax,
  type SamplingSettings,
  stopWordLengthMax,
  stopWordsMax,
  type TextRequest,
  turnsMax,
} from "./text.ts";

export interface CompletionRequest {
  readonly text: TextRequest;
  readonly stream: boolean;
  readonly includeUsage: boolean;
}

type Body = Readonly<Record<string, unknown>>;

export function parseCompletion(body: Body, seed: number): CompletionRequest {
  const { prompt } = body;
  if (typeof prompt !== "string" && !isTokenList(prompt))
    fail("invalid_argument", "prompt must be a string or a list of token ids");
  return common(body, prompt, seed);
}

export function parseChat(body: Body, seed: number): CompletionRequest {
  const { messages } = body;
  if (!Array.isArray(messages) || messages.length === 0)
    fail("invalid_argument", "messages must be a list with at least one message");
  if (messages.length > turnsMax)
    fail("invalid_argument", `messages has ${messages.length} entries, at most ${turnsMax} are allowed`);
  return common(body, { turns: messages.map(parseMessage) }, seed);
}

function parseMessage(message: unknown, index: number): ChatTurn {
  const { role, content } = (message ?? {}) as Record<string, unknown>;
  if (role !== "system" && role !== "user" && role !== "assistant" && role !== "developer")
    fail("invalid_argument", `messages[${index}].role must be system, developer, user or assistant`);
  return { role: role === "developer" ? "system" : role, content: contentText(content, index) };
}

function contentText(content: unknown, index: number): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content))
    fail("invalid_argument", `messages[${index}].content must be a string or a list of text parts`);
  return content
    .map((part: unknown) => {
      const { type, text } = (part ?? {}) as Record<string, unknown>;
      if (type !== "text" || typeof text !== "string")
        fail("invalid_argument", `messages[${index}].content may only have text parts`);
      return text;
    })
    .join("");
}

function common(body: Body, prompt: TextRequest["prompt"], seed: number): CompletionRequest {
  if (typeof body["model"] !== "string" || body["model"] === "")
    fail("invalid_argument", "model must name a served model: see /v1/models");
  if (body["n"] !== undefined && body["n"] !== null && body["n"] !== 1) fail("invalid_argument", "n may only be 1");
  const options = (body["stream_options"] ?? {}) as Record<string, unknown>;
  return {
    text: {
      model: body["model"],
      prompt,
      maxTokens: maxTokens(body),
      sampling: sampling(body, seed),
      stop: stopWords(body["stop"]),
    },
    stream: body["stream"] === true,
    includeUsage: options["include_usage"] === true,
  };
}

function maxTokens(body: Body): number {
  const value = body["max_completion_tokens"] ?? body["max_tokens"] ?? maxTokensDefault;
  if (!Number.isInteger(value) || (value as number) < 1)
    fail("invalid_argument", "max_tokens must be a whole number of at least 1");
  if ((value as number) > maxTokensMax)
    fail("invalid_argument", `max_tokens is ${String(value)}, at most ${maxTokensMax} are allowed`);
  return value as number;
}

function sampling(body: Body, seed: number): SamplingSettings {
  return {
    temperature: bounded(body, "temperature", 1, 0, 2),
    topP: bounded(body, "top_p", 1, 0, 1) || 1,
    topK: Math.floor(bounded(body, "top_k", 0, 0, 1_000_000)),
    repetitionPenalty: bounded(body, "repetition_penalty", 1, 0.1, 10),
    seed: Math.floor(bounded(body, "seed", seed, 0, Number.MAX_SAFE_INTEGER)),
  };
}

function bounded(body: Body, name: string, standard: number, least: number, most: number): number {
  const value = body[name] ?? standard;
  if (typeof value !== "number" || !(value >= least && value <= most))
    fail("invalid_argument", `${name} must be a number from ${least} to ${most}`);
  return value;
}

function stopWords(value: unknown): string[] {
  if (value === undefined || value === null) return [];
  const words: unknown[] = Array.isArray(value) ? value : [value];
  if (words.length > stopWordsMax) fail("invalid_argument", `stop may have at most ${stopWordsMax} words`);
  return words.map((word) => {
    if (typeof word !== "string" || word === "" || word.length > stopWordLengthMax)
      fail("invalid_argument", `stop words must be strings of 1 to ${stopWordLengthMax} characters`);
    return word;
  });
}

function isTokenList(value: unknown): value is number[] {
  return (
    Array.isArray(value) && value.length > 0 && value.every((id) => Number.isInteger(id) && id >= 0 && id < 2 ** 31)
  );
}
