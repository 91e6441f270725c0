// Several answers to one request, told apart by their number, piece by piece as they come.

import type { TextGenerator, TextPiece, TextRequest } from "./text.ts";

export interface ChoicePiece {
  readonly index: number;
  readonly piece: TextPiece;
}

/** Choices of one request that are computed at once; the rest of the room is for others. */
const choicesAtOnce = 4;

interface Running {
  readonly pieces: AsyncIterator<TextPiece>;
  readonly next: Promise<{ readonly index: number; readonly result: IteratorResult<TextPiece> }>;
}

/** One that fails ends all, and so does a reader who stops or a signal: nothing is computed for nobody. */
export async function* generateChoices(
  generator: TextGenerator,
  requests: readonly TextRequest[],
  signal: AbortSignal,
): AsyncGenerator<ChoicePiece> {
  const stop = new AbortController();
  const abort = () => stop.abort();
  if (signal.aborted) abort();
  signal.addEventListener("abort", abort, { once: true });
  const running = new Map<number, Running>();
  const waiting = requests.entries();
  const advance = (index: number, pieces: AsyncIterator<TextPiece>) => {
    const next = pieces.next().then((result) => ({ index, result }));
    // Another choice may have failed before anybody looks at this one.
    next.catch(() => undefined);
    // Those that were just heard go to the end: of several that are ready none waits for ever.
    running.delete(index);
    running.set(index, { pieces, next });
  };
  const startNext = () => {
    if (stop.signal.aborted) return;
    const { value, done } = waiting.next();
    if (!done) advance(value[0], generator.generate(value[1], stop.signal)[Symbol.asyncIterator]());
  };
  try {
    for (let i = 0; i < choicesAtOnce; i++) startNext();
    while (running.size > 0) {
      const { index, result } = await Promise.race([...running.values()].map(({ next }) => next));
      const { pieces } = running.get(index) as Running;
      if (result.done) {
        running.delete(index);
        startNext();
        continue;
      }
      yield { index, piece: result.value };
      advance(index, pieces);
    }
  } finally {
    signal.removeEventListener("abort", abort);
    stop.abort();
    for (const { pieces } of running.values()) pieces.return?.().catch(() => undefined);
  }
}
