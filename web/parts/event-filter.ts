// Which events are shown: by level, by kind, by text.

import type { EventView } from "../live/views.ts";

export const levels = ["all", "warn", "error"] as const;
export type Level = (typeof levels)[number];
export const levelNames: Readonly<Record<Level, string>> = { all: "all levels", warn: "warnings", error: "errors" };

export interface EventFilter {
  readonly level: Level;
  readonly kind: string;
  readonly text: string;
}

/** The newest first. */
export function filtered(events: readonly EventView[], { level, kind, text }: EventFilter): EventView[] {
  const query = text.trim().toLowerCase();
  return events
    .filter(
      (event) =>
        (level === "all" || event.level === "error" || (level === "warn" && event.level === "warn")) &&
        (kind === "" || event.kind.startsWith(`${kind}.`)) &&
        (query === "" || `${event.message} ${event.kind} ${event.vnode} ${event.pnode}`.toLowerCase().includes(query)),
    )
    .reverse();
}
