// Answers as OpenAI's clients read them: whole, or streamed as server-sent events.

import type { World } from "../../core/world.ts";
import type { ChoicePiece } from "./choices.ts";
import { errorBody } from "./openai-errors.ts";
import type { CompletionRequest } from "./openai-requests.ts";
import type { TextPiece } from "./text.ts";

type Pieces = AsyncIterator<ChoicePiece>;
type FirstPiece = IteratorResult<ChoicePiece>;

interface ChoiceChunk {
  readonly index: number;
  readonly text: string;
  readonly finish: string | null;
  readonly isFirst: boolean;
}

export interface AnswerShape {
  chunk(choice: ChoiceChunk): unknown;
  whole(texts: readonly string[], lasts: readonly (TextPiece | undefined)[]): unknown;
  usage(lasts: readonly (TextPiece | undefined)[]): unknown;
}

export function answerShape(world: World, { model, choicesPerPrompt }: CompletionRequest, chat: boolean): AnswerShape {
  const id = `${chat ? "chatcmpl" : "cmpl"}-${Buffer.from(world.chance.bytes(12)).toString("hex")}`;
  const base = { id, created: Math.floor(world.clock.wallMs() / 1000), model };
  const inPieces = { ...base, object: chat ? "chat.completion.chunk" : "text_completion" };
  return {
    chunk: ({ index, text, finish, isFirst }) => {
      const delta = { ...(isFirst ? { role: "assistant" } : {}), ...(text ? { content: text } : {}) };
      const said = chat ? { delta } : { text };
      return { ...inPieces, choices: [{ index, ...said, logprobs: null, finish_reason: finish }] };
    },
    whole: (texts, lasts) => ({
      ...base,
      object: chat ? "chat.completion" : "text_completion",
      choices: texts.map((text, index) => ({
        index,
        ...(chat ? { message: { role: "assistant", content: text, refusal: null } } : { text }),
        logprobs: null,
        finish_reason: lasts[index]?.finish ?? "stop",
      })),
      usage: usageOf(lasts, choicesPerPrompt),
    }),
    usage: (lasts) => ({ ...inPieces, choices: [], usage: usageOf(lasts, choicesPerPrompt) }),
  };
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
  const said = texts.map(() => "");
  const lasts: (TextPiece | undefined)[] = texts.map(() => undefined);
  for (let next = first; !next.done; next = await pieces.next()) {
    const { index, piece } = next.value;
    said[index] += piece.text;
    lasts[index] = piece;
  }
  return Response.json(shape.whole(said, lasts));
}

export function streamedAnswer(
  shape: AnswerShape,
  { texts, includeUsage }: CompletionRequest,
  first: FirstPiece,
  pieces: Pieces,
  stop: AbortController,
): Response {
  const encoder = new TextEncoder();
  const event = (data: unknown) =>
    encoder.encode(`data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`);
  const lasts: (TextPiece | undefined)[] = texts.map(() => undefined);
  let next = first;
  const body = new ReadableStream<Uint8Array>({
    pull: async (controller) => {
      try {
        // A pull that adds nothing is not repeated, and a piece may have no text yet.
        for (let added = false; !added; ) {
          if (next.done) {
            if (includeUsage) controller.enqueue(event(shape.usage(lasts)));
            controller.enqueue(event("[DONE]"));
            return controller.close();
          }
          const { index, piece } = next.value;
          const isFirst = lasts[index] === undefined;
          lasts[index] = piece;
          added = piece.text !== "" || isFirst || piece.finish !== undefined;
          if (piece.text !== "" || isFirst)
            controller.enqueue(event(shape.chunk({ index, text: piece.text, finish: null, isFirst })));
          if (piece.finish)
            controller.enqueue(event(shape.chunk({ index, text: "", finish: piece.finish, isFirst: false })));
          next = await pieces.next();
        }
      } catch (error) {
        controller.enqueue(event({ error: errorBody(error) }));
        controller.close();
      }
    },
    // The reader went away: whoever computes for it stops, and gives back its place.
    cancel: async () => {
      stop.abort();
      await pieces.return?.();
    },
  });
  return new Response(body, {
    headers: {
      "content-type": "text/event-stream; charset=utf-8",
      "cache-control": "no-store",
      "x-accel-buffering": "no",
    },
  });
}
