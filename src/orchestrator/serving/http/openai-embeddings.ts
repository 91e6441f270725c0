// POST /v1/embeddings: one vector for each text or list of token ids, as numbers or as the bytes that OpenAI's own clients ask for.

import { embedAll } from "./embeddings.ts";
import { listAnswer } from "./list-answers.ts";
import { refuse } from "./openai-errors.ts";
import { checkEmbedding } from "./openai-parameters.ts";
import { modelOf, promptsOf } from "./openai-requests.ts";
import { type Asked, readTexts, type ServingHttp } from "./serving-http.ts";

export async function embed(deps: ServingHttp, asked: Asked): Promise<Response> {
  const body = await readTexts(deps, asked, "input");
  checkEmbedding(body);
  const model = modelOf(body["model"]);
  const prompts = promptsOf(body["input"], "input");
  if (prompts.includes("")) refuse("input", "input has an empty text: it has no vector");
  await deps.checkModel(asked.roles, model);
  const { vectors, promptTokens } = await embedAll(deps, asked, model, prompts, { dimensions: body["dimensions"] });
  const written = body["encoding_format"] === "base64" ? inBase64 : (vector: Float32Array) => [...vector];
  const usage = { prompt_tokens: promptTokens, total_tokens: promptTokens };
  return listAnswer({ object: "list", model, usage }, "data", vectors, (vector, index) => ({
    ...{ object: "embedding", index, embedding: written(vector) },
  }));
}

/** Float32 numbers, the smallest byte first. */
function inBase64(vector: Float32Array): string {
  const bytes = Buffer.alloc(4 * vector.length);
  for (const [i, value] of vector.entries()) bytes.writeFloatLE(value, 4 * i);
  return bytes.toString("base64");
}
