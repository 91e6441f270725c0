// Answers as OpenAI's clients read them: whole, or streamed as server-sent events.

import type { World } from "../../../core/world.ts";
import type { ToolCall } from "../../../models/chats/tools.ts";
import type { ChoicePiece } from "../choices.ts";
import type { SpelledLogprob, TextPiece } from "../text.ts";
import { abandoning, eventStream } from "./event-stream.ts";
import { errorBody } from "./openai-errors.ts";
import { type LogprobsShape, logprobsShape } from "./openai-logprobs.ts";
import type { CompletionRequest } from "./openai-requests.ts";

type Pieces = AsyncIterator<ChoicePiece>;
type FirstPiece = IteratorResult<ChoicePiece>;

interface ChoiceChunk {
  readonly index: number;
  readonly text: string;
  readonly logprobs: readonly SpelledLogprob[];
  readonly calls: readonly ToolCall[];
  readonly finish: string | null;
  readonly isFirst: boolean;
}

/** All that was said in one choice so far. */
interface Said {
  text: string;
  readonly logprobs: SpelledLogprob[];
  last: TextPiece | undefined;
}

export interface AnswerShape {
  chunk(choice: ChoiceChunk): unknown;
  whole(choices: readonly Said[]): unknown;
  usage(lasts: readonly (TextPiece | undefined)[]): unknown;
}

export function answerShape(world: World, request: CompletionRequest, chat: boolean): AnswerShape {
  const { model, choicesPerPrompt, texts } = request;
  const logprobsOf: LogprobsShape = texts[0]?.topLogprobs === undefined ? () => null : logprobsShape(chat);
  const id = `${chat ? "chatcmpl" : "cmpl"}-${Buffer.from(world.chance.bytes(12)).toString("hex")}`;
  const base = { id, created: Math.floor(world.clock.wallMs() / 1000), model };
  const inPieces = { ...base, object: chat ? "chat.completion.chunk" : "text_completion" };
  return {
    chunk: ({ index, text, logprobs, calls, finish, isFirst }) => {
      const called = calls.map((call, at) => ({ index: at, ...functionCall(world, call) }));
      const delta = {
        ...(isFirst ? { role: "assistant" } : {}),
        ...(text ? { content: text } : {}),
        ...(called.length > 0 ? { tool_calls: called } : {}),
      };
      const said = chat ? { delta } : { text };
      const told = logprobs.length > 0 ? logprobsOf(logprobs, index) : null;
      return { ...inPieces, choices: [{ index, ...said, logprobs: told, finish_reason: finish }] };
    },
    whole: (choices) => ({
      ...base,
      object: chat ? "chat.completion" : "text_completion",
      choices: choices.map(({ text, logprobs, last }, index) => ({
        index,
        ...(chat ? { message: messageOf(world, text, last?.calls ?? []) } : { text }),
        logprobs: logprobsOf(logprobs, index),
        finish_reason: last?.finish ?? "stop",
      })),
      usage: usageOf(
        choices.map(({ last }) => last),
        choicesPerPrompt,
      ),
    }),
    usage: (lasts) => ({ ...inPieces, choices: [], usage: usageOf(lasts, choicesPerPrompt) }),
  };
}

function messageOf(world: World, text: string, calls: readonly ToolCall[]) {
  const message = { role: "assistant", content: calls.length > 0 && text === "" ? null : text, refusal: null };
  return calls.length > 0 ? { ...message, tool_calls: calls.map((call) => functionCall(world, call)) } : message;
}

export function functionCall({ chance }: World, { name, arguments: given }: ToolCall) {
  const id = `call_${Buffer.from(chance.bytes(12)).toString("hex")}`;
  return { id, type: "function" as const, function: { name, arguments: given } };
}

/** A prompt counts once, however many answers it gets. */
function usageOf(lasts: readonly (TextPiece | undefined)[], choicesPerPrompt: number) {
  let promptTokens = 0;
  let generatedTokens = 0;
  for (const [index, last] of lasts.entries()) {
    if (index % choicesPerPrompt === 0) promptTokens += last?.promptTokens ?? 0;
    generatedTokens += last?.generatedTokens ?? 0;
  }
  return {
    prompt_tokens: promptTokens,
    completion_tokens: generatedTokens,
    total_tokens: promptTokens + generatedTokens,
  };
}

export async function wholeAnswer(
  shape: AnswerShape,
  { texts }: CompletionRequest,
  first: FirstPiece,
  pieces: Pieces,
): Promise<Response> {
  const choices = texts.map((): Said => ({ text: "", logprobs: [], last: undefined }));
  for (let next = first; !next.done; next = await pieces.next()) {
    const { index, piece } = next.value;
    const said = choices[index] as Said;
    said.text += piece.text;
    said.logprobs.push(...(piece.logprobs ?? []));
    said.last = piece;
  }
  return Response.json(shape.whole(choices));
}

export function streamedAnswer(
  shape: AnswerShape,
  request: CompletionRequest,
  first: FirstPiece,
  pieces: Pieces,
  stop: AbortController,
): Response {
  return eventStream(framesOf(shape, request, first, pieces), abandoning(stop, pieces));
}

async function* framesOf(
  shape: AnswerShape,
  { texts, includeUsage }: CompletionRequest,
  first: FirstPiece,
  pieces: Pieces,
): AsyncGenerator<string> {
  const frame = (data: unknown) => `data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`;
  const lasts: (TextPiece | undefined)[] = texts.map(() => undefined);
  try {
    for (let next = first; !next.done; next = await pieces.next()) {
      const { index, piece } = next.value;
      const isFirst = lasts[index] === undefined;
      lasts[index] = piece;
      const { text, logprobs = [], calls = [], finish } = piece;
      if (text !== "" || logprobs.length > 0 || calls.length > 0 || isFirst)
        yield frame(shape.chunk({ index, text, logprobs, calls, finish: null, isFirst }));
      if (finish) yield frame(shape.chunk({ index, text: "", logprobs: [], calls: [], finish, isFirst: false }));
    }
    if (includeUsage) yield frame(shape.usage(lasts));
    yield frame("[DONE]");
  } catch (error) {
    yield frame({ error: errorBody(error) });
  }
}
