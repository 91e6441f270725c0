// POST /v1/embeddings: one vector for each text or list of token ids, as numbers or as the bytes that OpenAI's own clients ask for.

import type { Roles } from "../../../protocol/network.ts";
import { embedAll } from "./embeddings.ts";
import { refuse } from "./openai-errors.ts";
import { checkEmbedding } from "./openai-parameters.ts";
import { modelOf, promptsOf } from "./openai-requests.ts";
import { readBody, type ServingHttp } from "./serving-http.ts";

export async function embed(deps: ServingHttp, roles: Roles, request: Request): Promise<Response> {
  const body = await readBody(request);
  checkEmbedding(body);
  const model = modelOf(body["model"]);
  const prompts = promptsOf(body["input"], "input");
  if (prompts.includes("")) refuse("input", "input has an empty text: it has no vector");
  await deps.checkModel(roles, model);
  const wishes = { dimensions: body["dimensions"] };
  const { vectors, promptTokens } = await embedAll(deps.generator, model, prompts, wishes, request.signal);
  const written = body["encoding_format"] === "base64" ? inBase64 : (vector: readonly number[]) => vector;
  return Response.json({
    object: "list",
    data: vectors.map((vector, index) => ({ object: "embedding", index, embedding: written(vector) })),
    model,
    usage: { prompt_tokens: promptTokens, total_tokens: promptTokens },
  });
}

/** Float32 numbers, the smallest byte first. */
function inBase64(vector: readonly number[]): string {
  const bytes = Buffer.alloc(4 * vector.length);
  for (const [i, value] of vector.entries()) bytes.writeFloatLE(value, 4 * i);
  return bytes.toString("base64");
}
