// The OpenAI-compatible API: /v1/models, /v1/completions, /v1/chat/completions. Requests are read, answers and errors
// written by the files beside this one.

import { DcnrError } from "../../core/errors.ts";
import type { World } from "../../core/world.ts";
import type { Caller, HttpHandler, Roles } from "../../protocol/network.ts";
import type { ApiKeys } from "../rights/keys.ts";
import { generateChoices } from "./choices.ts";
import { answerShape, streamedAnswer, wholeAnswer } from "./openai-answers.ts";
import { BadRequest, errorResponse } from "./openai-errors.ts";
import { isRecord } from "./openai-parameters.ts";
import { parseChat, parseCompletion } from "./openai-requests.ts";
import { NoSuchModel, type ServedModel, type TextGenerator } from "./text.ts";

/** Far beyond any context; the rest would only be read to be refused. */
const bodyBytesMax = 512 << 10;

export interface OpenAiDependencies {
  readonly world: World;
  readonly generator: TextGenerator;
  readonly keys: ApiKeys;
  identify(caller: Caller, authorization: string | undefined): Promise<Caller>;
  /** Refuses models that a key is not good for. */
  checkModel(roles: Roles, model: string): Promise<void>;
}

export function openAiHandler(deps: OpenAiDependencies): HttpHandler {
  return async (request, peer) => {
    const { pathname } = new URL(request.url);
    if (!pathname.startsWith("/v1/")) return undefined;
    const response = await answered(deps, request, peer, pathname);
    // What a client's error names, so that it can be found in what is logged.
    response.headers.set("x-request-id", `req_${Buffer.from(deps.world.chance.bytes(12)).toString("hex")}`);
    return response;
  };
}

async function answered(deps: OpenAiDependencies, request: Request, peer: string, pathname: string): Promise<Response> {
  try {
    const authorization = request.headers.get("authorization") ?? undefined;
    const caller = await deps.identify({ address: peer }, authorization);
    const roles = await deps.keys.require("generate", authorization, caller);
    if (pathname === "/v1/models" && request.method === "GET") return await listModels(deps);
    if (pathname.startsWith("/v1/models/") && request.method === "GET")
      return await showModel(deps, decoded(pathname.slice("/v1/models/".length)));
    if (pathname === "/v1/completions" && request.method === "POST") return await complete(deps, roles, request, false);
    if (pathname === "/v1/chat/completions" && request.method === "POST")
      return await complete(deps, roles, request, true);
    throw new BadRequest("unknown_url", undefined, `there is no ${request.method} ${pathname}`);
  } catch (error) {
    if (!(error instanceof DcnrError)) deps.world.log("error", `the API failed: ${String(error)}`);
    return errorResponse(error);
  }
}

async function listModels({ generator }: OpenAiDependencies): Promise<Response> {
  return Response.json({ object: "list", data: (await generator.models()).map(modelView) });
}

async function showModel({ generator }: OpenAiDependencies, name: string): Promise<Response> {
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

function modelView({ name, createdWallMs, context, status, reason }: ServedModel) {
  const created = Math.floor(createdWallMs / 1000);
  return { id: name, object: "model", created, owned_by: "dcnr", context_length: context, status, reason };
}

async function complete(deps: OpenAiDependencies, roles: Roles, request: Request, chat: boolean): Promise<Response> {
  const body = await readBody(request);
  const seed = Math.floor(deps.world.chance.uniform() * 2 ** 31);
  const parsed = chat ? parseChat(body, seed) : parseCompletion(body, seed);
  for (const { model } of parsed.texts) await deps.checkModel(roles, model);
  const shape = answerShape(deps.world, parsed, chat);
  const stop = new AbortController();
  request.signal.addEventListener("abort", () => stop.abort(), { once: true });
  const pieces = generateChoices(deps.generator, parsed.texts, stop.signal);
  // The first piece decides between an answer and an error status, before any header is sent.
  const first = await pieces.next();
  return parsed.stream ? streamedAnswer(shape, parsed, first, pieces, stop) : wholeAnswer(shape, parsed, first, pieces);
}

async function readBody(request: Request): Promise<Readonly<Record<string, unknown>>> {
  const announced = Number(request.headers.get("content-length") ?? 0);
  if (announced > bodyBytesMax) throw tooLong();
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of request.body ?? []) {
    size += part.byteLength;
    if (size > bodyBytesMax) throw tooLong();
    parts.push(part);
  }
  try {
    const body: unknown = JSON.parse(Buffer.concat(parts).toString("utf8"));
    if (isRecord(body)) return body;
  } catch {
    // Falls through to the sentence below.
  }
  throw new BadRequest("invalid_value", undefined, "the request's body must be a JSON object");
}

function tooLong(): DcnrError {
  const message = `the request has more than ${bodyBytesMax >> 10} KB: shorten the prompt`;
  return new BadRequest("request_too_large", undefined, message);
}
