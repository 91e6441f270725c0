// Vectors of several texts, as both HTTP front ends are asked for them: some at a time, in the order of the texts.

import { fail } from "../../../core/errors.ts";
import type { EmbedRequest } from "../text.ts";
import { refuse } from "./openai-errors.ts";
import type { Asked, ServingHttp } from "./serving-http.ts";
import { textsMax } from "./works.ts";

/** Texts of one request that are read at once; the rest of the room is for others. */
const textsAtOnce = 4;

export interface EmbeddingWishes {
  readonly truncate?: boolean;
  /** How wide vectors should be: as they are, or not at all. Cutting them makes sense for networks trained for it only. */
  readonly dimensions?: unknown;
}

export interface Embeddings {
  readonly vectors: readonly Float32Array[];
  readonly promptTokens: number;
}

export async function embedAll(
  { generator }: Pick<ServingHttp, "generator">,
  { request: { signal }, counted }: Asked,
  model: string,
  prompts: readonly EmbedRequest["prompt"][],
  { truncate = false, dimensions }: EmbeddingWishes,
): Promise<Embeddings> {
  if (prompts.length > textsMax) refuse("input", `input has more than ${textsMax} texts: send several requests`);
  const stop = new AbortController();
  const abort = () => stop.abort();
  signal.addEventListener("abort", abort, { once: true });
  const vectors: Float32Array[] = [];
  let tokens = 0;
  const ask = async (index: number) => {
    const prompt = prompts[index] as EmbedRequest["prompt"];
    const { vector, promptTokens } = await generator.embed({ model, prompt, truncate }, stop.signal);
    vectors[index] = Float32Array.from(vector);
    tokens += promptTokens;
    // They wait for the last one, and then for whoever asked.
    if (!counted.hold(vectors[index].byteLength))
      fail(
        "resource_exhausted",
        "refused: too many vectors of yours, or in all, are in memory: send fewer texts at a time",
      );
  };
  try {
    // The first alone: it shows how wide vectors are, before the rest is computed in vain.
    await ask(0);
    checkWidth(vectors[0]?.length ?? 0, dimensions);
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
  return { vectors, promptTokens: tokens };
}

function checkWidth(width: number, dimensions: unknown): void {
  if (dimensions === undefined || dimensions === null || dimensions === width) return;
  refuse(
    "dimensions",
    `dimensions must be ${width}, as wide as the model is, or left out: vectors are not cut`,
    "unsupported_parameter",
  );
}
