// An answer that is told while it is made, as events of a server (text/event-stream), no faster than it is read.

/** `frames` are whole events as text; what goes wrong is one of them, too. `cancel` hears that the reader went away. */
export function eventStream(frames: AsyncIterator<string>, cancel: () => Promise<void>): Response {
  const encoder = new TextEncoder();
  const body = new ReadableStream<Uint8Array>({
    pull: async (controller) => {
      const { value, done } = await frames.next();
      if (done) controller.close();
      else controller.enqueue(encoder.encode(value));
    },
    cancel,
  });
  return new Response(body, {
    headers: {
      "content-type": "text/event-stream; charset=utf-8",
      "cache-control": "no-store",
      "x-accel-buffering": "no",
    },
  });
}

/** Whoever computes for the reader stops, and gives back its place. */
export function abandoning(stop: AbortController, pieces: AsyncIterator<unknown>): () => Promise<void> {
  return async () => {
    stop.abort();
    await pieces.return?.();
  };
}
