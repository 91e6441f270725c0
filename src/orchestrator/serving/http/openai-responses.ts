// OpenAI's newer endpoint, /v1/responses: a conversation as a list of items in, messages and calls as items out. It asks for what
// a chat asks for, in other words, so it is read as a chat; nothing is stored, so nothing can be gone on with by id.

import { DcnrError } from "../../../core/errors.ts";
import type { World } from "../../../core/world.ts";
import type { TextPiece } from "../text.ts";
import { abandoning, eventStream } from "./event-stream.ts";
import { functionCall } from "./openai-answers.ts";
import { BadRequest, errorBody, refuse } from "./openai-errors.ts";
import { checkResponse, checkResponseText, isRecord } from "./openai-parameters.ts";
import { parseChat } from "./openai-requests.ts";
import { type Asked, readBody, type ServingHttp, stopFor } from "./serving-http.ts";

type Body = Readonly<Record<string, unknown>>;

export async function respond(deps: ServingHttp, asked: Asked): Promise<Response> {
  const body = await readBody(deps, asked);
  const seed = Math.floor(deps.world.chance.uniform() * 2 ** 31);
  const { texts, model, stream } = asChat(body, seed);
  const [text] = texts;
  if (!text) throw new BadRequest("invalid_value", "input", "input is empty");
  await deps.checkModel(asked.roles, model);
  const stop = stopFor(asked.request);
  const pieces = deps.generator.generate(text, stop.signal)[Symbol.asyncIterator]();
  // The first piece decides between an answer and an error status, before any header is sent.
  const first = await pieces.next();
  const draft = new Draft(deps.world, body, model);
  if (stream) return streamed(draft, first, pieces, stop);
  for (let next = first; !next.done; next = await pieces.next()) draft.add(next.value);
  return Response.json(draft.whole());
}

/** What is called otherwise there. Errors speak of what was sent. */
const names: readonly (readonly [chat: string, here: string])[] = [
  ["messages", "input"],
  ["max_tokens", "max_output_tokens"],
  ["response_format", "text.format"],
];

function asChat(body: Body, seed: number) {
  checkResponse(body);
  const { input, instructions, tools, tool_choice, text, max_output_tokens, ...same } = body;
  const kept = ["model", "temperature", "top_p", "stream", "parallel_tool_calls", "seed"];
  const chat = {
    ...Object.fromEntries(Object.entries(same).filter(([name]) => kept.includes(name))),
    messages: [...instructed(instructions), ...messagesOf(input)],
    ...(Array.isArray(tools) ? { tools: tools.map(nestedTool) } : { tools }),
    tool_choice: isRecord(tool_choice)
      ? { type: tool_choice["type"], function: { name: tool_choice["name"] } }
      : tool_choice,
    max_tokens: max_output_tokens,
    ...formatOf(text),
  };
  try {
    return parseChat(Object.fromEntries(Object.entries(chat).filter(([, value]) => value !== undefined)), seed);
  } catch (error) {
    if (!(error instanceof BadRequest)) throw error;
    const renamed = (words: string) => names.reduce((one, [before, after]) => one.replaceAll(before, after), words);
    throw new BadRequest(error.fault, error.param && renamed(error.param), renamed(error.message));
  }
}

function instructed(instructions: unknown): unknown[] {
  if (instructions === undefined || instructions === null) return [];
  if (typeof instructions !== "string") refuse("instructions", "instructions must be a string");
  return [{ role: "system", content: instructions }];
}

function messagesOf(input: unknown): unknown[] {
  if (input === undefined || input === null) refuse("input", "input is missing", "missing_required_parameter");
  if (typeof input === "string") return [{ role: "user", content: input }];
  if (!Array.isArray(input)) refuse("input", "input must be a string or a list of items");
  const messages: unknown[] = [];
  let calls: unknown[] | undefined;
  for (const [index, item] of input.entries()) {
    const place = `input[${index}]`;
    if (!isRecord(item)) refuse(place, `${place} must be an object`);
    const { type = "message" } = item;
    if (type === "function_call") {
      // Calls that follow each other were made in one turn.
      if (calls === undefined) {
        calls = [];
        messages.push({ role: "assistant", content: null, tool_calls: calls });
      }
      calls.push({
        id: item["call_id"],
        type: "function",
        function: { name: item["name"], arguments: item["arguments"] },
      });
      continue;
    }
    calls = undefined;
    if (type === "message") messages.push({ role: item["role"], content: partsOf(item["content"]) });
    else if (type === "function_call_output")
      messages.push({ role: "tool", tool_call_id: item["call_id"], content: item["output"] });
    else
      refuse(
        `${place}.type`,
        `${place}.type is not supported: message, function_call and function_call_output are`,
        "unsupported_parameter",
      );
  }
  return messages;
}

function partsOf(content: unknown): unknown {
  if (!Array.isArray(content)) return content;
  return content.map((part: unknown) => {
    const isText = isRecord(part) && (part["type"] === "input_text" || part["type"] === "output_text");
    return isText ? { type: "text", text: part["text"] } : part;
  });
}

function nestedTool(tool: unknown): unknown {
  if (!isRecord(tool)) return tool;
  const { type, ...described } = tool;
  return { type, function: described };
}

function formatOf(text: unknown): { response_format?: unknown } {
  if (text === undefined || text === null) return {};
  if (!isRecord(text)) refuse("text", "text must be an object");
  checkResponseText(text);
  const { format } = text;
  if (!isRecord(format) || format["type"] !== "json_schema")
    return format === undefined ? {} : { response_format: format };
  const { type, ...described } = format;
  return { response_format: { type, json_schema: described } };
}

/** An answer as it grows. */
class Draft {
  readonly #world: World;
  readonly #base: Body;
  readonly #messageId: string;
  #text = "";
  #last: TextPiece | undefined;
  #calls: readonly Body[] = [];

  constructor(world: World, body: Body, model: string) {
    this.#world = world;
    const id = (kind: string) => `${kind}_${Buffer.from(world.chance.bytes(12)).toString("hex")}`;
    this.#messageId = id("msg");
    const asked = Object.fromEntries(
      [
        "instructions",
        "metadata",
        "temperature",
        "top_p",
        "max_output_tokens",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
      ]
        .filter((name) => body[name] !== undefined)
        .map((name) => [name, body[name]]),
    );
    const created = Math.floor(world.clock.wallMs() / 1000);
    const usual = { instructions: null, metadata: {}, tools: [], tool_choice: "auto", parallel_tool_calls: true };
    this.#base = {
      id: id("resp"),
      object: "response",
      created_at: created,
      model,
      ...usual,
      ...asked,
      store: false,
      error: null,
    };
  }

  add(piece: TextPiece): void {
    this.#text += piece.text;
    this.#last = piece;
    this.#calls = (piece.calls ?? []).map((call) => {
      const { id, function: called } = functionCall(this.#world, call);
      return { type: "function_call", id: id.replace("call_", "fc_"), call_id: id, ...called, status: "completed" };
    });
  }

  get hasText(): boolean {
    return this.#text !== "" || this.#calls.length === 0;
  }

  get calls(): readonly Body[] {
    return this.#calls;
  }

  get part(): Body {
    return { type: "output_text", text: this.#text, annotations: [] };
  }

  message(status: string, content: readonly Body[]): Body {
    return { type: "message", id: this.#messageId, role: "assistant", status, content };
  }

  begun(): Body {
    return { ...this.#base, status: "in_progress", output: [], incomplete_details: null, usage: null };
  }

  whole(): Body {
    const isCut = this.#last?.finish === "length";
    const status = isCut ? "incomplete" : "completed";
    const { promptTokens = 0, generatedTokens = 0 } = this.#last ?? {};
    return {
      ...this.#base,
      status,
      incomplete_details: isCut ? { reason: "max_output_tokens" } : null,
      output: [...(this.hasText ? [this.message(status, [this.part])] : []), ...this.#calls],
      usage: {
        input_tokens: promptTokens,
        input_tokens_details: { cached_tokens: 0 },
        output_tokens: generatedTokens,
        output_tokens_details: { reasoning_tokens: 0 },
        total_tokens: promptTokens + generatedTokens,
      },
    };
  }
}

/** Events in the order that clients put an answer together by. */
async function* eventsOf(
  draft: Draft,
  first: IteratorResult<TextPiece>,
  pieces: AsyncIterator<TextPiece>,
): AsyncGenerator<Body> {
  yield { type: "response.created", response: draft.begun() };
  yield { type: "response.in_progress", response: draft.begun() };
  const at = { output_index: 0, content_index: 0, item_id: draft.message("", [])["id"] };
  let isOpen = false;
  for (let next = first; !next.done; next = await pieces.next()) {
    draft.add(next.value);
    const isLast = next.value.finish !== undefined;
    if (!isOpen && (next.value.text !== "" || (isLast && draft.hasText))) {
      isOpen = true;
      yield { type: "response.output_item.added", output_index: 0, item: draft.message("in_progress", []) };
      yield { type: "response.content_part.added", ...at, part: { type: "output_text", text: "", annotations: [] } };
    }
    if (next.value.text !== "")
      yield { type: "response.output_text.delta", ...at, delta: next.value.text, logprobs: [] };
  }
  const whole = draft.whole();
  if (isOpen) {
    yield { type: "response.output_text.done", ...at, text: draft.part["text"], logprobs: [] };
    yield { type: "response.content_part.done", ...at, part: draft.part };
    yield {
      type: "response.output_item.done",
      output_index: 0,
      item: draft.message(whole["status"] as string, [draft.part]),
    };
  }
  for (const [index, call] of draft.calls.entries()) {
    const place = { output_index: index + (isOpen ? 1 : 0), item_id: call["id"] };
    yield {
      type: "response.output_item.added",
      output_index: place.output_index,
      item: { ...call, arguments: "", status: "in_progress" },
    };
    yield { type: "response.function_call_arguments.delta", ...place, delta: call["arguments"] };
    yield { type: "response.function_call_arguments.done", ...place, name: call["name"], arguments: call["arguments"] };
    yield { type: "response.output_item.done", output_index: place.output_index, item: call };
  }
  yield { type: whole["status"] === "completed" ? "response.completed" : "response.incomplete", response: whole };
}

function streamed(
  draft: Draft,
  first: IteratorResult<TextPiece>,
  pieces: AsyncIterator<TextPiece>,
  stop: AbortController,
): Response {
  return eventStream(framesOf(eventsOf(draft, first, pieces)), abandoning(stop, pieces));
}

async function* framesOf(events: AsyncIterable<Body>): AsyncGenerator<string> {
  let number = 0;
  const frame = (event: Body) =>
    `event: ${String(event["type"])}\ndata: ${JSON.stringify({ ...event, sequence_number: number++ })}\n\n`;
  try {
    for await (const event of events) yield frame(event);
  } catch (error) {
    const { message, code, param } = errorBody(DcnrError.from(error));
    yield frame({ type: "error", message, code, param });
  }
}
