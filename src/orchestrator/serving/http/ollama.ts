// What programs made for Ollama ask: /api/tags, /api/version, /api/embed, and /api/chat and /api/generate, answered as lines of JSON. Whatever else
// Ollama knows, and options that are not obeyed, are refused by name.

import { DcnrError } from "../../../core/errors.ts";
import type { ChatTurn } from "../../../models/chats/chat-template.ts";
import type { Tool } from "../../../models/chats/tools.ts";
import { anyObject } from "../../../models/grammar/schema.ts";
import type { HttpHandler } from "../../../protocol/network.ts";
import { maxTokensMax, type TextPiece, type TextRequest, turnsMax } from "../text.ts";
import { embedAll } from "./embeddings.ts";
import { listAnswer } from "./list-answers.ts";
import {
  checkOllamaCall,
  checkOllamaEmbed,
  checkOllamaEmbedOne,
  checkOllamaMessage,
  checkOllamaOptions,
  checkOllamaRequest,
} from "./ollama-parameters.ts";
import { refuse, statusOfError } from "./openai-errors.ts";
import { toolsOf } from "./openai-messages.ts";
import { isRecord } from "./openai-parameters.ts";
import { common, modelOf } from "./openai-requests.ts";
import { type Asked, admitted, readBody, readTexts, type ServingHttp, stopFor } from "./serving-http.ts";

type Body = Readonly<Record<string, unknown>>;

/** Whose answers programs know how to read. */
const spokenVersion = "0.9.0";

export function ollamaHandler(deps: ServingHttp): HttpHandler {
  return async (request, peer, counted) => {
    const { pathname } = new URL(request.url);
    if (!pathname.startsWith("/api/")) return undefined;
    try {
      const asked = await admitted(deps, request, peer, counted);
      switch (`${request.method} ${pathname}`) {
        case "GET /api/version":
          return Response.json({ version: spokenVersion });
        case "GET /api/tags":
          return await tags(deps);
        case "POST /api/chat":
          return await answer(deps, asked, true);
        case "POST /api/generate":
          return await answer(deps, asked, false);
        case "POST /api/embed":
          return await embed(deps, asked);
        case "POST /api/embeddings":
          return await embedOne(deps, asked);
        default:
          return Response.json({ error: `there is no ${request.method} ${pathname}` }, { status: 404 });
      }
    } catch (error) {
      if (!(error instanceof DcnrError)) deps.world.log("error", `the API failed: ${String(error)}`);
      return Response.json({ error: sentenceOf(error) }, { status: statusOfError(error) });
    }
  };
}

/** What is not an expected failure may name files or secrets. */
function sentenceOf(error: unknown): string {
  return error instanceof DcnrError ? error.message : "internal error";
}

function written(wallMs: number): string {
  // biome-ignore lint/style/noRestrictedGlobals: a time that is given is written down, no clock is read
  return new Date(wallMs).toISOString();
}

async function tags({ generator }: ServingHttp): Promise<Response> {
  const models = (await generator.models()).map(({ name, createdWallMs }) => ({
    ...{ name, model: name, modified_at: written(createdWallMs) },
    details: { format: "dcnr" },
  }));
  return Response.json({ models });
}

async function answer(deps: ServingHttp, asked: Asked, chat: boolean): Promise<Response> {
  const { world, generator } = deps;
  const body = await readBody(deps, asked);
  const text = requestOf(body, chat, Math.floor(world.chance.uniform() * 2 ** 31));
  await deps.checkModel(asked.roles, text.model);
  const stop = stopFor(asked.request);
  const beganMs = world.clock.monotonicMs();
  const pieces = generator.generate(text, stop.signal)[Symbol.asyncIterator]();
  // The first piece decides between an answer and an error status, before any header is sent.
  const first = await pieces.next();
  const line = (said: Body, more: Body) => ({
    ...{ model: text.model, created_at: written(world.clock.wallMs()) },
    ...(chat
      ? { message: { role: "assistant", content: said["text"], ...calledIn(said) } }
      : { response: said["text"] }),
    ...more,
  });
  const ended = ({ finish, promptTokens, generatedTokens }: TextPiece) => ({
    done: true,
    done_reason: finish === "length" ? "length" : "stop",
    total_duration: Math.round((world.clock.monotonicMs() - beganMs) * 1e6),
    prompt_eval_count: promptTokens,
    eval_count: generatedTokens,
  });
  const shape: Shape = {
    piece: (piece) => line({ text: piece.text, calls: piece.calls }, { done: false }),
    last: (piece) => line({ text: "" }, ended(piece)),
    whole: (said, piece) => line({ text: said, calls: piece.calls }, ended(piece)),
  };
  return body["stream"] === false ? whole(shape, first, pieces) : streamed(shape, first, pieces, stop);
}

async function embed(deps: ServingHttp, asked: Asked): Promise<Response> {
  const { world } = deps;
  const body = await readTexts(deps, asked, "input");
  checkOllamaEmbed(body);
  const beganMs = world.clock.monotonicMs();
  const { model, vectors, promptTokens } = await embedded(deps, asked, body, texts(body["input"], "input"));
  const tookMs = world.clock.monotonicMs() - beganMs;
  const told = { model, prompt_eval_count: promptTokens, load_duration: 0, total_duration: Math.round(tookMs * 1e6) };
  return listAnswer(told, "embeddings", vectors, (vector) => [...vector]);
}

/** What Ollama had before: one text, one vector. */
async function embedOne(deps: ServingHttp, asked: Asked): Promise<Response> {
  const body = await readBody(deps, asked);
  checkOllamaEmbedOne(body);
  if (typeof body["prompt"] !== "string") refuse("prompt", "prompt must be a text");
  const { vectors } = await embedded(deps, asked, body, texts(body["prompt"], "prompt"));
  return Response.json({ embedding: [...(vectors[0] ?? [])] });
}

function texts(given: unknown, name: string): string[] {
  const found: unknown[] = Array.isArray(given) ? given : [given];
  if (found.length === 0 || !found.every((one) => typeof one === "string" && one !== ""))
    refuse(name, `${name} must be a text, or several`);
  return found as string[];
}

async function embedded(deps: ServingHttp, asked: Asked, body: Body, prompts: string[]) {
  const model = modelOf(untagged(body["model"]));
  await deps.checkModel(asked.roles, model);
  const wishes = { truncate: body["truncate"] === true, dimensions: body["dimensions"] };
  return { model, ...(await embedAll(deps, asked, model, prompts, wishes)) };
}

/** Clients that know Ollama name the newest of a model so. */
function untagged(model: unknown): unknown {
  return typeof model === "string" ? model.replace(/:latest$/, "") : model;
}

interface Shape {
  piece(piece: TextPiece): Body;
  last(piece: TextPiece): Body;
  whole(text: string, last: TextPiece): Body;
}

async function whole(
  shape: Shape,
  first: IteratorResult<TextPiece>,
  pieces: AsyncIterator<TextPiece>,
): Promise<Response> {
  let said = "";
  let last: TextPiece = { text: "", tokens: [], promptTokens: 0, generatedTokens: 0 };
  for (let next = first; !next.done; next = await pieces.next()) {
    said += next.value.text;
    last = next.value;
  }
  return Response.json(shape.whole(said, last));
}

function streamed(
  shape: Shape,
  first: IteratorResult<TextPiece>,
  pieces: AsyncIterator<TextPiece>,
  stop: AbortController,
): Response {
  const encoder = new TextEncoder();
  let next = first;
  const body = new ReadableStream<Uint8Array>({
    pull: async (controller) => {
      const write = (line: Body) => controller.enqueue(encoder.encode(`${JSON.stringify(line)}\n`));
      try {
        // A pull that adds nothing is not repeated, and a piece may have no text yet.
        for (let added = false; !added && !next.done; next = await pieces.next()) {
          const piece = next.value;
          added = piece.text !== "" || piece.calls !== undefined || piece.finish !== undefined;
          if (piece.text !== "" || piece.calls) write(shape.piece(piece));
          if (piece.finish) write(shape.last(piece));
        }
        if (next.done) controller.close();
      } catch (error) {
        write({ error: sentenceOf(error) });
        controller.close();
      }
    },
    cancel: async () => {
      stop.abort();
      await pieces.return?.();
    },
  });
  return new Response(body, { headers: { "content-type": "application/x-ndjson", "cache-control": "no-store" } });
}

function calledIn({ calls }: Body): { tool_calls?: unknown } {
  if (!Array.isArray(calls) || calls.length === 0) return {};
  return {
    tool_calls: calls.map(({ name, arguments: given }) => ({ function: { name, arguments: JSON.parse(given) } })),
  };
}

function requestOf(body: Body, chat: boolean, seed: number): TextRequest {
  checkOllamaRequest(body, chat);
  const options = body["options"] ?? {};
  if (!isRecord(options)) refuse("options", "options must be an object");
  checkOllamaOptions(options);
  const { num_predict: most, repeat_penalty: repetition, ...sampling } = options;
  const model = untagged(body["model"]);
  const asked = {
    // What Ollama takes where nothing is said.
    ...{ temperature: 0.8, top_k: 40, top_p: 0.9, ...sampling, model },
    ...(repetition === undefined ? {} : { repetition_penalty: repetition }),
    max_tokens: most === undefined || most === -1 || most === -2 ? maxTokensMax : most,
  };
  const schema = schemaOf(body["format"]);
  const { texts } = common(asked, [chat ? conversation(body) : promptOf(body)], seed, schema ? { schema } : {});
  return texts[0] as TextRequest;
}

function schemaOf(format: unknown): string | undefined {
  if (format === undefined || format === null || format === "") return undefined;
  if (format === "json") return anyObject;
  if (!isRecord(format)) refuse("format", 'format must be "json" or a JSON schema');
  return JSON.stringify(format);
}

function promptOf(body: Body): TextRequest["prompt"] {
  const { prompt, system, raw } = body;
  if (typeof prompt !== "string" || prompt === "") refuse("prompt", "prompt must be a text");
  if (raw === true) return prompt;
  if (system !== undefined && typeof system !== "string") refuse("system", "system must be a text");
  const turns: ChatTurn[] = system ? [{ role: "system", content: system }] : [];
  return { turns: [...turns, { role: "user", content: prompt }] };
}

function conversation(body: Body): TextRequest["prompt"] {
  const { messages } = body;
  if (!Array.isArray(messages) || messages.length === 0 || messages.length > turnsMax)
    refuse("messages", `messages must be a list of 1 to ${turnsMax} messages`);
  const tools: readonly Tool[] = toolsOf({ tools: body["tools"] ?? [] }).tools;
  return { turns: answering(messages.map(turnOf)), ...(tools.length > 0 ? { tools } : {}) };
}

/** Results name a function at most: each is of the first call of that name that has none yet, for templates that want its id. */
function answering(turns: readonly ChatTurn[]): ChatTurn[] {
  let open: NonNullable<ChatTurn["calls"]> = [];
  return turns.map((turn) => {
    if (turn.role === "assistant") open = turn.calls ?? [];
    if (turn.role !== "tool") return turn;
    const call = open.find(({ name }) => turn.name === undefined || turn.name === name);
    if (call === undefined) return turn;
    open = open.filter((one) => one !== call);
    return { ...turn, callId: call.id, name: call.name };
  });
}

function turnOf(message: unknown, index: number): ChatTurn {
  const place = `messages[${index}]`;
  if (!isRecord(message)) refuse(place, `${place} must be an object with role and content`);
  checkOllamaMessage(message, place);
  const { role, content = "", tool_name: name, tool_calls: made = [] } = message;
  if (role !== "system" && role !== "user" && role !== "assistant" && role !== "tool")
    refuse(`${place}.role`, `${place}.role must be system, user, assistant or tool`);
  if (typeof content !== "string") refuse(`${place}.content`, `${place}.content must be a text`);
  if (!Array.isArray(made)) refuse(`${place}.tool_calls`, `${place}.tool_calls must be a list`);
  const calls = made.map((call: unknown, at) => callOf(call, `${place}.tool_calls[${at}]`, `call-${index}-${at}`));
  return { role, content, ...(typeof name === "string" ? { name } : {}), ...(calls.length > 0 ? { calls } : {}) };
}

function callOf(call: unknown, place: string, id: string): NonNullable<ChatTurn["calls"]>[number] {
  if (!isRecord(call) || !isRecord(call["function"])) refuse(place, `${place} must have a function`);
  checkOllamaCall(call, place);
  const { name, arguments: given = {} } = call["function"];
  if (typeof name !== "string" || !isRecord(given)) refuse(place, `${place}.function must have a name and arguments`);
  return { id, name, arguments: JSON.stringify(given) };
}
