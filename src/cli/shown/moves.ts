// Events as lines: many VNodes that go the same way at once are one line.

import type { Event } from "../../protocol/gen/dcnr/v1/common_pb.ts";

type Told = Pick<Event, "level" | "kind" | "message" | "vnode" | "pnode" | "fromPnode">;

/** More than so many moves at once are told together. */
const movesShownMax = 3;

export function condensed(events: readonly Told[]): { readonly level: string; readonly message: string }[] {
  const moves = events.filter(({ kind }) => kind === "vnode.placed");
  if (moves.length <= movesShownMax) return [...events];
  const lines: { level: string; message: string }[] = [];
  let told = false;
  for (const event of events) {
    if (event.kind !== "vnode.placed") lines.push(event);
    else if (!told) {
      told = true;
      for (const group of Map.groupBy(moves, wayOf).values()) lines.push({ level: "info", message: together(group) });
    }
  }
  return lines;
}

function together(group: readonly Told[]): string {
  const [first] = group;
  if (!first || group.length === 1) return first?.message ?? "";
  const what = group.length <= movesShownMax ? group.map(({ vnode }) => vnode).join(", ") : `${group.length} VNodes`;
  return `${what} go ${wayOf(first)}`;
}

/** "from birch to cedar", as the sentence has it with its names. */
function wayOf({ message }: Told): string {
  return /goes (.+?): /.exec(message)?.[1] ?? message;
}
