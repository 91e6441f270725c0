// Answers with a long list, such as thousands of vectors, written in pieces: to write the whole at once would hold up everybody else.

import { setImmediate as othersTurn } from "node:timers/promises";

/** Written at a time: some vectors, in about a millisecond. */
const pieceLength = 64 << 10;

/** A JSON object with the list under this name; an item is made when its turn comes. */
export function listAnswer<Item>(
  whole: Readonly<Record<string, unknown>>,
  name: string,
  items: readonly Item[],
  written: (item: Item, index: number) => unknown,
): Response {
  const encoder = new TextEncoder();
  let next = 0;
  let text = `${JSON.stringify(whole).slice(0, -1)},${JSON.stringify(name)}:[`;
  const body = new ReadableStream<Uint8Array>(
    {
      pull: async (controller) => {
        await othersTurn();
        for (; next < items.length && text.length < pieceLength; next++)
          text += (next > 0 ? "," : "") + JSON.stringify(written(items[next] as Item, next));
        const isLast = next === items.length;
        controller.enqueue(encoder.encode(isLast ? `${text}]}` : text));
        text = "";
        if (isLast) controller.close();
      },
    },
    { highWaterMark: 0 },
  );
  return new Response(body, { headers: { "content-type": "application/json" } });
}
