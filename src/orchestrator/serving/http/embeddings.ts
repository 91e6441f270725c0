// Vectors of several texts, as both HTTP front ends are asked for them: some at a time, in the order of the texts.

import type { Embedding, EmbedRequest, TextGenerator } from "../text.ts";
import { refuse } from "./openai-errors.ts";

/** Texts of one request, as many as OpenAI takes. */
const textsMax = 2_048;
/** Texts of one request that are read at once; the rest of the room is for others. */
const textsAtOnce = 4;

export interface EmbeddingWishes {
  readonly truncate?: boolean;
  /** How wide vectors should be: as they are, or not at all. Cutting them makes sense for networks trained for it only. */
  readonly dimensions?: unknown;
}

export interface Embeddings {
  readonly vectors: readonly (readonly number[])[];
  readonly promptTokens: number;
}

export async function embedAll(
  generator: TextGenerator,
  model: string,
  prompts: readonly EmbedRequest["prompt"][],
  { truncate = false, dimensions }: EmbeddingWishes,
  signal: AbortSignal,
): Promise<Embeddings> {
  if (prompts.length > textsMax)
    refuse("input", `input has ${prompts.length} texts, at most ${textsMax} may be in one request: send several`);
  const stop = new AbortController();
  const abort = () => stop.abort();
  signal.addEventListener("abort", abort, { once: true });
  const found: Embedding[] = [];
  const ask = async (index: number) => {
    const prompt = prompts[index] as EmbedRequest["prompt"];
    found[index] = await generator.embed({ model, prompt, truncate }, stop.signal);
  };
  try {
    // The first alone: it shows how wide vectors are, before the rest is computed in vain.
    await ask(0);
    checkWidth(found[0]?.vector.length ?? 0, dimensions);
    let next = 1;
    const worker = async () => {
      while (next < prompts.length && !stop.signal.aborted) await ask(next++);
    };
    await Promise.all(Array.from({ length: textsAtOnce }, worker));
  } finally {
    signal.removeEventListener("abort", abort);
    // One that fails ends all: nothing is computed for nobody.
    stop.abort();
  }
  return {
    vectors: found.map(({ vector }) => vector),
    promptTokens: found.reduce((sum, { promptTokens }) => sum + promptTokens, 0),
  };
}

function checkWidth(width: number, dimensions: unknown): void {
  if (dimensions === undefined || dimensions === null || dimensions === width) return;
  refuse(
    "dimensions",
    `dimensions must be ${width}, as wide as the model is, or left out: vectors are not cut`,
    "unsupported_parameter",
  );
}
