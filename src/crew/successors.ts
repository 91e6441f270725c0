// Who comes next for a VNode, and who keeps its states: by rendezvous hashing, so that everybody who knows the same
// members names the same ones, and that a member's loss changes nothing for the others.

import { sha256 } from "../core/hash.ts";

/** The first is the first successor. */
export function successorsOf(session: string, vnode: string, pnodes: Iterable<string>): string[] {
  return Array.from(new Set(pnodes), (pnode) => ({ pnode, weight: sha256(`${session}\n${vnode}\n${pnode}`) }))
    .sort((a, b) => (a.weight < b.weight ? -1 : 1))
    .map(({ pnode }) => pnode);
}
