// Parts that move side by side: one at a time while the line is slow, so that a broken transfer costs one part; more
// when parts pass quickly, since then it is round trips and not the line that they wait for.

import type { Clock } from "../core/world.ts";

/** More would only share the same line, and each holds a part in memory, and once more while it is hashed. */
const lanesMax = 2;

/** A part that passes within this leaves room for another beside it. */
const quickMs = 3_000;

/** The first failure ends it: no new item is begun, and those under way are waited for. */
export async function inLanes<Item>(
  items: readonly Item[],
  clock: Pick<Clock, "monotonicMs">,
  move: (item: Item, lane: number) => Promise<void>,
): Promise<void> {
  const free = Array.from({ length: lanesMax }, (_, lane) => lanesMax - 1 - lane);
  const running = new Set<Promise<void>>();
  let next = 0;
  let wide = 1;
  let failure: { readonly thrown: unknown } | undefined;
  const start = (item: Item) => {
    const lane = free.pop() as number;
    const startedMs = clock.monotonicMs();
    const moving = move(item, lane)
      .then(() => {
        const quick = clock.monotonicMs() - startedMs <= quickMs;
        wide = quick ? Math.min(lanesMax, wide + 1) : Math.max(1, wide - 1);
      })
      .catch((thrown: unknown) => {
        failure ??= { thrown };
      })
      .finally(() => {
        free.push(lane);
        running.delete(moving);
      });
    running.add(moving);
  };
  for (;;) {
    while (failure === undefined && next < items.length && running.size < wide) start(items[next++] as Item);
    if (running.size === 0) break;
    await Promise.race(running);
  }
  if (failure !== undefined) throw failure.thrown;
}
