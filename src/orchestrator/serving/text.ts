// Text in, text out: what the gRPC and the OpenAI-compatible front ends share, so that both behave alike.

import { DcnrError } from "../../core/errors.ts";
import type { ChatPrompt } from "../../models/chats/chat-template.ts";
import type { ToolCall } from "../../models/chats/tools.ts";
import type { SamplingSettings } from "../../models/sampling.ts";

export interface TextRequest {
  readonly model: string;
  /** Text, token ids, or a conversation that is written down as the model was taught. */
  readonly prompt: string | readonly number[] | ChatPrompt;
  /** Of a conversation with tools: whether the answer has to call one of them. Absent: it may. */
  readonly mustCall?: { readonly parallel: boolean };
  /** Of several calls that the model makes by itself, the first alone is told. */
  readonly oneCall?: boolean;
  readonly maxTokens: number;
  readonly sampling: SamplingSettings;
  readonly stop: readonly string[];
  /** How many of the likeliest tokens are told beside each one of the answer; absent: no probabilities. */
  readonly topLogprobs?: number;
  /** A JSON schema that the answer has to fit; absent: none. */
  readonly schema?: string;
  /** The answer begins with the prompt. */
  readonly echo?: boolean;
}

export interface EmbedRequest {
  readonly model: string;
  readonly prompt: string | readonly number[];
  /** What is beyond the context is left out; absent: such a text is refused. */
  readonly truncate?: boolean;
}

export interface Embedding {
  /** Of length 1. */
  readonly vector: readonly number[];
  readonly promptTokens: number;
}

export interface SpelledToken {
  readonly text: string;
  /** Absent where a model has no vocabulary. */
  readonly bytes: readonly number[] | undefined;
  readonly logprob: number;
}

export interface SpelledLogprob extends SpelledToken {
  readonly top: readonly SpelledToken[];
}

export interface TextPiece {
  readonly text: string;
  readonly tokens: readonly number[];
  /** Of the tokens whose text has begun to be shown. */
  readonly logprobs?: readonly SpelledLogprob[];
  /** Set on the last piece. */
  readonly finish?: "stop" | "length" | "tool_calls";
  /** On the last piece: what the model wants to be called. */
  readonly calls?: readonly ToolCall[];
  /** The replica that answers. */
  readonly replica?: string;
  readonly promptTokens: number;
  readonly generatedTokens: number;
}

export interface ServedModel {
  readonly name: string;
  readonly createdWallMs: number;
  readonly context: number;
  /** "ready" if it answers at once; else a request waits, or is refused with the reason. */
  readonly status: string;
  readonly reason: string;
  /** Of weights in few bits: which, and their mean relative error once it was measured. */
  readonly weights?: string;
  readonly weightError?: number;
  /** What guesses beside it, and what came of guessed tokens by kind. */
  readonly draft?: string;
  readonly draftWeights?: string;
  readonly guesses?: readonly { readonly kind: string; readonly guessed: bigint; readonly right: bigint }[];
}

/** Clients ask for another model, or tell their user. */
export class NoSuchModel extends DcnrError {
  constructor(message: string) {
    super("not_found", message);
  }
}

/** Clients shorten the conversation and ask again. */
export class PromptTooLong extends DcnrError {
  constructor(message: string) {
    super("invalid_argument", message);
  }
}

/** The schema cannot be met, or asks for more than is understood. */
export class BadSchema extends DcnrError {}

export interface TextGenerator {
  models(): Promise<readonly ServedModel[]>;
  /** Fails with `NoSuchModel`, `PromptTooLong`, `BadSchema`, `resource_exhausted` (too many at once). */
  generate(request: TextRequest, signal: AbortSignal): AsyncIterable<TextPiece>;
  /** Fails likewise. */
  embed(request: EmbedRequest, signal: AbortSignal): Promise<Embedding>;
}

/** What a prompt gets that asks for nothing; a turn of a conversation goes on until it ends. */
export const maxTokensDefault = 128;
/** A million tokens would occupy a small network for hours; longer answers are asked for again. */
export const maxTokensMax = 65_536;
export const stopWordsMax = 8;
export const stopWordLengthMax = 256;
export const turnsMax = 1_000;
