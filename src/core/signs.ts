// A stream whose pieces may be long in coming: whoever sends it gives signs in between, whoever reads it gives up when not even those come.
// A stream that hangs looks like a long thought otherwise, for as long as the connection that carries it lives.

import { fail } from "./errors.ts";
import type { World } from "./world.ts";

type Timers = World["timers"];

/** The pieces, and a sign whenever none came for so long. */
export async function* withSigns<T>(pieces: AsyncIterable<T>, sign: T, everyMs: number, timers: Timers) {
  for await (const piece of inTime(pieces, everyMs, timers)) yield piece === late ? sign : piece;
}

/** The pieces; fails with `unavailable` if nothing comes for so long. `what` names who should have spoken. */
export async function* whileHeard<T>(
  pieces: AsyncIterable<T>,
  what: string,
  silentMs: number,
  timers: Timers,
): AsyncGenerator<T> {
  for await (const piece of inTime(pieces, silentMs, timers)) {
    if (piece === late) fail("unavailable", `${what} has said nothing for ${Math.round(silentMs / 1_000)} s`);
    yield piece;
  }
}

const late: unique symbol = Symbol("late");

/** `late` each time that the next piece takes longer. The reader may stop at any time; what it reads from is told, and not waited for. */
async function* inTime<T>(pieces: AsyncIterable<T>, ms: number, timers: Timers): AsyncGenerator<T | typeof late> {
  const iterator = pieces[Symbol.asyncIterator]();
  let next = iterator.next();
  let isOver = false;
  try {
    for (;;) {
      let cancel = () => {};
      const timer = new Promise<typeof late>((resolve) => {
        cancel = timers.after(ms, () => resolve(late));
      });
      const came = await Promise.race([next, timer]).finally(() => cancel());
      if (came === late) {
        yield late;
        continue;
      }
      isOver = came.done === true;
      if (isOver) return;
      yield came.value;
      next = iterator.next();
    }
  } catch (thrown) {
    isOver = true;
    throw thrown;
  } finally {
    if (!isOver) {
      next.catch(() => {});
      iterator.return?.().catch(() => {});
    }
  }
}
