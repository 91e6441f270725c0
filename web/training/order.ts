// In which order sessions stand, and which step back.

import { isUnderWay } from "../live/hooks.ts";
import type { SessionView } from "../live/views.ts";

/** What runs first, then the newest; one string, so that it compares by value. */
export function sessionOrder(sessions: ReadonlyMap<string, SessionView>): string {
  return Array.from(sessions.values())
    .sort((a, b) => Number(isUnderWay(b.status)) - Number(isUnderWay(a.status)) || b.createdMs - a.createdMs)
    .map((session) => session.id)
    .join("\n");
}

/** Nothing will happen to it by itself, and nobody looks at it. */
export function stepsBack(view: SessionView | undefined, selected: string): boolean {
  return view !== undefined && view.id !== selected && (view.status === "done" || view.status === "failed");
}
