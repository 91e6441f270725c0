// Goes on watching when the connection breaks in the middle: an orchestrator on a busy machine may not answer for some seconds,
// and whatever it was watched for goes on meanwhile. What cannot be watched at first fails at once.

import { Retries } from "../../core/retry.ts";
import type { World } from "../../core/world.ts";

/** Longer is gone, not busy. */
const patienceMs = 30_000;

export async function* steadyWatch<Update>(
  watch: () => AsyncIterable<Update>,
  world: Pick<World, "clock" | "timers" | "chance">,
  signal: AbortSignal,
): AsyncGenerator<Update> {
  const retries = new Retries({ world, minMs: 300, maxMs: 3_000, patienceMs, signal });
  let isSeen = false;
  for (;;)
    try {
      for await (const update of watch()) {
        isSeen = true;
        retries.progressed();
        yield update;
      }
      return;
    } catch (error) {
      if (!isSeen) throw error;
      await retries.again(error);
    }
}
