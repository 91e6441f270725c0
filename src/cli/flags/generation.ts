// Flags about generating text, and printing an answer as it comes.

import type { GenerateOptions, GeneratePrompt } from "../../client/calls/models.ts";
import type { Client } from "../../client/client.ts";
import type { Flags, OptionSpec } from "../command.ts";
import type { Output } from "../shown/output.ts";

export const generationOptions: Readonly<Record<string, OptionSpec>> = {
  "max-tokens": { type: "number", least: 1, most: 1_000_000, summary: "tokens to generate at most", default: 128 },
  temperature: {
    type: "number",
    most: 100,
    fraction: true,
    summary: "0 for the likeliest token always, higher for more chance",
    default: 0.8,
  },
  "top-k": { type: "number", most: 1_000_000, summary: "choose among the K likeliest tokens; 0 for all", default: 0 },
  "top-p": {
    type: "number",
    most: 1,
    fraction: true,
    summary: "choose among the likeliest tokens of this joint probability",
    default: 1,
  },
  "repetition-penalty": {
    type: "number",
    most: 100,
    fraction: true,
    summary: "above 1, repeated tokens become less likely",
    default: 1,
  },
  seed: { type: "number", most: Number.MAX_SAFE_INTEGER, summary: "the same seed gives the same answer", default: 1 },
  stop: { type: "string", value: "TEXT", many: true, summary: "end the answer here; may be repeated" },
};

export function generationFrom(flags: Flags, signal: AbortSignal): GenerateOptions {
  return {
    maxTokens: flags.number("max-tokens"),
    temperature: flags.number("temperature"),
    topK: flags.number("top-k"),
    topP: flags.number("top-p"),
    repetitionPenalty: flags.number("repetition-penalty"),
    seed: flags.optionalNumber("seed") ?? 1,
    stop: flags.texts("stop"),
    signal,
  };
}

export interface Answer {
  readonly text: string;
  readonly tokens: number[];
  readonly finish: string;
  readonly promptTokens: number;
  readonly generatedTokens: number;
}

/** Streams to the terminal unless `quiet`, behind `before`; the whole answer at the end. */
export async function printAnswer(
  client: Client,
  model: string,
  prompt: GeneratePrompt,
  options: GenerateOptions,
  out: Output,
  quiet: boolean,
  before = "",
): Promise<Answer> {
  const answer = { text: "", tokens: [] as number[], finish: "", promptTokens: 0, generatedTokens: 0 };
  let isFirst = true;
  for await (const piece of client.generate(model, prompt, options)) {
    answer.text += piece.text;
    answer.tokens.push(...piece.tokens);
    answer.finish = piece.finish;
    answer.promptTokens = piece.promptTokens;
    answer.generatedTokens = piece.generatedTokens;
    // Not before there is an answer: an error should stand on a line of its own.
    if (!quiet) out.raw(isFirst ? before + printable(piece.text) : printable(piece.text));
    isFirst = false;
  }
  if (!quiet) out.raw("\n");
  return answer;
}

/** A model may write anything; escape sequences must not reach the terminal. */
function printable(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: removing them is the point
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, "");
}
