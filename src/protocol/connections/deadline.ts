// Deadlines that count only time in which this process runs. A process that was held up for ten seconds finds ten
// seconds of answers waiting in its sockets: it must read those before it calls anybody late.

import type { Cancel, Timers } from "../../core/world.ts";

/** A wait is counted in pieces; however late one of them fires, it counts for no more than its length. */
const pieces = 8;
/** Shorter ones would cost more than they tell. */
const pieceMsMin = 250;

/** Calls back once `limitMs` have passed, unless cancelled. */
export function within(timers: Timers, limitMs: number, late: () => void): Cancel {
  const pieceMs = Math.max(pieceMsMin, limitMs / pieces);
  let cancel: Cancel = () => {};
  const wait = (leftMs: number) => {
    cancel = timers.after(Math.min(pieceMs, leftMs), () => (leftMs <= pieceMs ? late() : wait(leftMs - pieceMs)));
  };
  wait(limitMs);
  return () => cancel();
}
