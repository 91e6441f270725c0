// Failures and recoveries on the step axis: losses of PNodes that hosted the session, and where its VNodes went.

import type { EventView } from "../live/views.ts";

export interface Mark {
  readonly step: number;
  readonly kind: "failure" | "recovered" | "note";
  readonly title: string;
  readonly lines: readonly string[];
}

/** Re-placements this long after a loss are its consequence; they may be told a little before it. */
const consequenceMs = 60_000;
const earlyMs = 3_000;

interface Loss {
  readonly event: EventView;
  readonly placed: EventView[];
}

/**
 * `stepAt` says at which step the session was at a wall time, as far as this page saw it. Events from before know the
 * newest stored step, which is close.
 */
export function marksOf(
  events: readonly EventView[],
  session: string,
  stepAt: (wallMs: number) => number | undefined,
  nameOf: (pnode: string) => string,
): Mark[] {
  const marks: Mark[] = [];
  const losses: Loss[] = events.filter((one) => one.kind === "pnode.lost").map((event) => ({ event, placed: [] }));
  for (const event of events) {
    if (event.session !== session) continue;
    if (event.kind === "vnode.placed") lossBehind(losses, event)?.placed.push(event);
    const note = noteOf(event);
    const step = event.step || stepAt(event.wallMs);
    if (note && step !== undefined) marks.push({ step, kind: "note", title: note, lines: [event.message] });
  }
  for (const loss of losses) {
    const mark = markOf(loss, stepAt, nameOf);
    if (mark) marks.push({ ...mark, title: recoveryOf(events, session, loss.event) ?? mark.title });
  }
  return marks.sort((a, b) => a.step - b.step);
}

/** What the orchestrator said once everybody had got on. */
function recoveryOf(events: readonly EventView[], session: string, lost: EventView): string | undefined {
  return events.find(
    ({ kind, session: whose, pnode, wallMs }) =>
      kind === "session.recovered" && whose === session && pnode === lost.pnode && wallMs >= lost.wallMs - earlyMs,
  )?.message;
}

function lossBehind(losses: readonly Loss[], { wallMs, fromPNode }: EventView): Loss | undefined {
  return losses.findLast(({ event }) => {
    const laterMs = wallMs - event.wallMs;
    return laterMs > -earlyMs && laterMs < consequenceMs && event.pnode === fromPNode;
  });
}

function markOf(
  { event, placed }: Loss,
  stepAt: (wallMs: number) => number | undefined,
  nameOf: (pnode: string) => string,
): Mark | undefined {
  const last = placed.at(-1);
  // A loss that moved nothing of this session is not its business.
  if (!last) return undefined;
  const step = stepAt(event.wallMs) ?? placed.find((one) => one.step > 0)?.step;
  if (step === undefined) return undefined;
  const seconds = Math.max(0, (last.wallMs - event.wallMs) / 1000);
  return {
    step,
    kind: "recovered",
    title: `${nameOf(event.pnode)} lost, ${placed.length === 1 ? "1 VNode" : `${placed.length} VNodes`} re-placed in ${seconds.toFixed(1)} s`,
    lines: placed.map((one) => `${one.vnode} → ${nameOf(one.pnode)}`),
  };
}

function noteOf({ kind }: EventView): string | undefined {
  if (kind === "session.suspended") return "suspended";
  if (kind === "session.back") return "went back";
  if (kind === "session.rebalanced") return "rebalanced";
  return undefined;
}
