// The OpenAI-compatible API: /v1/models, /v1/completions, /v1/chat/completions, answers whole or streamed as
// server-sent events. Errors have OpenAI's shape, so that existing clients show them.

import { DcnrError, type ErrorCode, fail } from "../../core/errors.ts";
import type { World } from "../../core/world.ts";
import type { HttpHandler } from "../../protocol/network.ts";
import type { ApiKeys } from "./keys.ts";
import { type CompletionRequest, parseChat, parseCompletion } from "./openai-requests.ts";
import type { ServedModel, TextGenerator, TextPiece } from "./text.ts";

/** Far beyond any context; the rest would only be read to be refused. */
const bodyBytesMax = 512 << 10;

const statuses: Partial<Record<ErrorCode, number>> = {
  invalid_argument: 400,
  out_of_range: 400,
  unauthenticated: 401,
  permission_denied: 403,
  not_found: 404,
  // Not 409 or 412, which would fit too: OpenAI's clients repeat what is answered with 409.
  failed_precondition: 400,
  resource_exhausted: 429,
  unavailable: 503,
  deadline_exceeded: 504,
};

export interface OpenAiDependencies {
  readonly world: World;
  readonly generator: TextGenerator;
  readonly keys: ApiKeys;
}

export function openAiHandler(deps: OpenAiDependencies): HttpHandler {
  return async (request, peer) => {
    const { pathname } = new URL(request.url);
    if (!pathname.startsWith("/v1/")) return undefined;
    try {
      await deps.keys.require("generate", request.headers.get("authorization") ?? undefined, peer);
      if (pathname === "/v1/models" && request.method === "GET") return await listModels(deps);
      if (pathname.startsWith("/v1/models/") && request.method === "GET")
        return await showModel(deps, decodeURIComponent(pathname.slice("/v1/models/".length)));
      if (pathname === "/v1/completions" && request.method === "POST") return await complete(deps, request, false);
      if (pathname === "/v1/chat/completions" && request.method === "POST") return await complete(deps, request, true);
      throw new DcnrError("not_found", `there is no ${request.method} ${pathname}`);
    } catch (error) {
      return errorResponse(error, deps.world);
    }
  };
}

async function listModels({ generator }: OpenAiDependencies): Promise<Response> {
  return Response.json({ object: "list", data: (await generator.models()).map(modelView) });
}

async function showModel({ generator }: OpenAiDependencies, name: string): Promise<Response> {
  const model = (await generator.models()).find((one) => one.name === name);
  return model ? Response.json(modelView(model)) : fail("not_found", `there is no model "${name}": see /v1/models`);
}

function modelView({ name, createdWallMs, context, status, reason }: ServedModel) {
  const created = Math.floor(createdWallMs / 1000);
  return { id: name, object: "model", created, owned_by: "dcnr", context_length: context, status, reason };
}

async function complete(deps: OpenAiDependencies, request: Request, chat: boolean): Promise<Response> {
  const body = await readBody(request);
  const seed = Math.floor(deps.world.chance.uniform() * 2 ** 31);
  const parsed = chat ? parseChat(body, seed) : parseCompletion(body, seed);
  const shape = answerShape(deps, parsed, chat);
  const stop = new AbortController();
  request.signal.addEventListener("abort", () => stop.abort(), { once: true });
  const pieces = deps.generator.generate(parsed.text, stop.signal)[Symbol.asyncIterator]();
  // The first piece decides between an answer and an error status, before any header is sent.
  const first = await pieces.next();
  return parsed.stream ? streamed(shape, first, pieces, stop, parsed) : whole(shape, first, pieces);
}

interface AnswerShape {
  chunk(text: string, finish: string | null, isFirst: boolean): unknown;
  whole(text: string, finish: string, last: TextPiece | undefined): unknown;
  usage(last: TextPiece | undefined): unknown;
}

function answerShape(
  { world }: OpenAiDependencies,
  { text: { model } }: CompletionRequest,
  chat: boolean,
): AnswerShape {
  const id = `${chat ? "chatcmpl" : "cmpl"}-${Buffer.from(world.chance.bytes(12)).toString("hex")}`;
  const base = { id, created: Math.floor(world.clock.wallMs() / 1000), model };
  const usageOf = (last: TextPiece | undefined) => ({
    prompt_tokens: last?.promptTokens ?? 0,
    completion_tokens: last?.generatedTokens ?? 0,
    total_tokens: (last?.promptTokens ?? 0) + (last?.generatedTokens ?? 0),
  });
  return {
    chunk: (text, finish, isFirst) => ({
      ...base,
      object: chat ? "chat.completion.chunk" : "text_completion",
      choices: [
        chat
          ? {
              index: 0,
              delta: { ...(isFirst ? { role: "assistant" } : {}), ...(text ? { content: text } : {}) },
              finish_reason: finish,
            }
          : { index: 0, text, logprobs: null, finish_reason: finish },
      ],
    }),
    whole: (text, finish, last) => ({
      ...base,
      object: chat ? "chat.completion" : "text_completion",
      choices: [
        chat
          ? {
              index: 0,
              message: { role: "assistant", content: text, refusal: null },
              logprobs: null,
              finish_reason: finish,
            }
          : { index: 0, text, logprobs: null, finish_reason: finish },
      ],
      usage: usageOf(last),
    }),
    usage: (last) => ({
      ...base,
      object: chat ? "chat.completion.chunk" : "text_completion",
      choices: [],
      usage: usageOf(last),
    }),
  };
}

type Pieces = AsyncIterator<TextPiece>;
type FirstPiece = IteratorResult<TextPiece>;

async function whole(shape: AnswerShape, first: FirstPiece, pieces: Pieces): Promise<Response> {
  let text = "";
  let last: TextPiece | undefined;
  for (let next = first; !next.done; next = await pieces.next()) {
    text += next.value.text;
    last = next.value;
  }
  return Response.json(shape.whole(text, last?.finish ?? "stop", last));
}

function streamed(
  shape: AnswerShape,
  first: FirstPiece,
  pieces: Pieces,
  stop: AbortController,
  request: CompletionRequest,
): Response {
  const encoder = new TextEncoder();
  const event = (data: unknown) =>
    encoder.encode(`data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`);
  let next = first;
  let isFirst = true;
  const body = new ReadableStream<Uint8Array>({
    pull: async (controller) => {
      try {
        // A pull that adds nothing is not repeated, and a piece may have no text yet.
        for (let added = false; !added; ) {
          if (next.done) return controller.close();
          const piece = next.value;
          added = piece.text !== "" || isFirst;
          if (added) controller.enqueue(event(shape.chunk(piece.text, null, isFirst)));
          isFirst = false;
          if (piece.finish) {
            controller.enqueue(event(shape.chunk("", piece.finish, false)));
            if (request.includeUsage) controller.enqueue(event(shape.usage(piece)));
            controller.enqueue(event("[DONE]"));
            controller.close();
            await pieces.return?.();
            return;
          }
          next = await pieces.next();
        }
      } catch (error) {
        controller.enqueue(event({ error: errorBody(error) }));
        controller.close();
      }
    },
    // The reader went away: whoever computes for it stops.
    cancel: () => stop.abort(),
  });
  return new Response(body, {
    headers: {
      "content-type": "text/event-stream; charset=utf-8",
      "cache-control": "no-store",
      "x-accel-buffering": "no",
    },
  });
}

async function readBody(request: Request): Promise<Record<string, unknown>> {
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
    if (body !== null && typeof body === "object" && !Array.isArray(body)) return body as Record<string, unknown>;
  } catch {
    // Falls through to the sentence below.
  }
  throw new DcnrError("invalid_argument", "the request's body must be a JSON object");
}

function tooLong(): DcnrError {
  return new DcnrError("invalid_argument", `the request has more than ${bodyBytesMax >> 10} KB: shorten the prompt`);
}

function errorBody(error: unknown) {
  const known = error instanceof DcnrError;
  const status = known ? (statuses[error.code] ?? 500) : 500;
  const type = status === 429 ? "rate_limit_exceeded" : status < 500 ? "invalid_request_error" : "server_error";
  return {
    message: known ? error.message : "internal error",
    type,
    param: null,
    code: known ? error.code : "internal",
  };
}

function errorResponse(error: unknown, world: World): Response {
  if (!(error instanceof DcnrError)) world.log("error", `the API failed: ${String(error)}`);
  const status = error instanceof DcnrError ? (statuses[error.code] ?? 500) : 500;
  const headers: Record<string, string> = status === 429 ? { "retry-after": "1" } : {};
  return Response.json({ error: errorBody(error) }, { status, headers });
}
