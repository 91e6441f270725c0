// The OpenAI-compatible API: /v1/models, /v1/completions, /v1/chat/completions, /v1/responses,
// /v1/embeddings. Requests are read, answers and errors written by the files beside this one.

import { DcnrError } from "../../../core/errors.ts";
import type { Counted, HttpHandler } from "../../../protocol/network.ts";
import { generateChoices } from "../choices.ts";
import { NoSuchModel, type ServedModel } from "../text.ts";
import { answerShape, streamedAnswer, wholeAnswer } from "./openai-answers.ts";
import { embed } from "./openai-embeddings.ts";
import { BadRequest, errorResponse } from "./openai-errors.ts";
import { parseChat, parseCompletion } from "./openai-requests.ts";
import { respond } from "./openai-responses.ts";
import { type Asked, admitted, readBody, type ServingHttp, stopFor } from "./serving-http.ts";

export function openAiHandler(deps: ServingHttp): HttpHandler {
  return async (request, peer, counted) => {
    const { pathname } = new URL(request.url);
    if (!pathname.startsWith("/v1/")) return undefined;
    const response = await answered(deps, request, peer, counted, pathname);
    // What a client's error names, so that it can be found in what is logged.
    response.headers.set("x-request-id", `req_${Buffer.from(deps.world.chance.bytes(12)).toString("hex")}`);
    return response;
  };
}

async function answered(
  deps: ServingHttp,
  request: Request,
  peer: string,
  counted: Counted,
  pathname: string,
): Promise<Response> {
  try {
    const asked = await admitted(deps, request, peer, counted);
    if (pathname === "/v1/models" && request.method === "GET") return await listModels(deps);
    if (pathname.startsWith("/v1/models/") && request.method === "GET")
      return await showModel(deps, decoded(pathname.slice("/v1/models/".length)));
    if (pathname === "/v1/completions" && request.method === "POST") return await complete(deps, asked, false);
    if (pathname === "/v1/chat/completions" && request.method === "POST") return await complete(deps, asked, true);
    if (pathname === "/v1/responses" && request.method === "POST") return await respond(deps, asked);
    if (pathname === "/v1/embeddings" && request.method === "POST") return await embed(deps, asked);
    throw new BadRequest("unknown_url", undefined, `there is no ${request.method} ${pathname}`);
  } catch (error) {
    if (!(error instanceof DcnrError)) deps.world.log("error", `the API failed: ${String(error)}`);
    return errorResponse(error);
  }
}

async function listModels({ generator }: ServingHttp): Promise<Response> {
  return Response.json({ object: "list", data: (await generator.models()).map(modelView) });
}

async function showModel({ generator }: ServingHttp, name: string): Promise<Response> {
  const model = (await generator.models()).find((one) => one.name === name);
  if (!model) throw new NoSuchModel(`there is no model "${name.slice(0, 80)}": see /v1/models`);
  return Response.json(modelView(model));
}

/** A name that is not well escaped is taken as it stands; no model is called so. */
function decoded(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

function modelView(model: ServedModel) {
  const { name, createdWallMs, context, status, reason, weights, weightError, draft, draftWeights, guesses } = model;
  const created = Math.floor(createdWallMs / 1000);
  return {
    ...{ id: name, object: "model", created, owned_by: "dcnr", context_length: context, status, reason },
    ...(weights && { weights }),
    ...(weightError !== undefined && { weight_error: weightError }),
    ...(draft !== undefined && { draft, draft_weights: draftWeights ?? "float32" }),
    ...(guesses && { guessed_tokens: Object.fromEntries(guesses.map(guessView)) }),
  };
}

/** By kind. Numbers of tokens are far from where doubles end. */
function guessView({ kind, guessed, right }: NonNullable<ServedModel["guesses"]>[number]) {
  return [kind, { guessed: Number(guessed), right: Number(right) }] as const;
}

async function complete(deps: ServingHttp, asked: Asked, chat: boolean): Promise<Response> {
  const body = await readBody(deps, asked);
  const seed = Math.floor(deps.world.chance.uniform() * 2 ** 31);
  const parsed = chat ? parseChat(body, seed) : parseCompletion(body, seed);
  for (const { model } of parsed.texts) await deps.checkModel(asked.roles, model);
  const shape = answerShape(deps.world, parsed, chat);
  const stop = stopFor(asked.request);
  const pieces = generateChoices(deps.generator, parsed.texts, stop.signal);
  // The first piece decides between an answer and an error status, before any header is sent.
  const first = await pieces.next();
  return parsed.stream ? streamedAnswer(shape, parsed, first, pieces, stop) : wholeAnswer(shape, parsed, first, pieces);
}
