// Which VNodes somebody looks for: by their name, by their machine's, by what they do. Pure.

import type { State } from "../live/store.ts";
import { vnodeKey } from "../live/views.ts";

type Seen = Pick<State, "placements" | "names">;

/** Names, one a line; undefined if nothing is looked for. One string, which compares by value. */
export function soughtIn(
  { placements, names }: Seen,
  session: string,
  vnodes: readonly string[],
  query: string,
): string | undefined {
  const wanted = query.trim().toLowerCase();
  if (wanted === "") return undefined;
  return vnodes
    .filter((vnode) => {
      const placed = placements.get(vnodeKey(session, vnode));
      const host = placed ? (names.get(placed.pnode) ?? placed.pnode) : "no host";
      return [vnode, host, placed?.phase ?? ""].some((text) => text.toLowerCase().includes(wanted));
    })
    .join("\n");
}
