// What stands together on the graph: each VNode alone, the VNodes of a block (by the numbers in their names), or those of a
// machine. And which edges are left between groups. Pure.

import type { LayoutEdge } from "./layout.ts";

export const groupings = ["VNodes", "blocks", "machines"] as const;
export type Grouping = (typeof groupings)[number];

export interface Group {
  /** A VNode's own id where it stands alone. */
  readonly id: string;
  readonly title: string;
  readonly members: readonly string[];
}

/** More cards than this cannot be read at once. */
const cardsReadable = 40;

/** "block_3_head_0", "layers.3.mlp": the number after the first word. "ffn_up_3": the number at the end. */
const leading = /^([a-z]+(?:_[a-z]+)*?)[_.-]?(\d+)[_.-]/i;
const trailing = /[_.-](\d+)$/;

export function blockOf(vnode: string): string | undefined {
  // Lanes repeat a network's VNodes as "name#1": a block is of one lane.
  const [name = "", lane] = vnode.split("#");
  const block = numberedPart(name);
  return block === undefined || lane === undefined ? block : `${block}, lane ${lane}`;
}

function numberedPart(name: string): string | undefined {
  const [, word, number] = leading.exec(name) ?? [];
  if (word !== undefined && number !== undefined) return `${word.toLowerCase().replace(/s$/, "")} ${number}`;
  const last = trailing.exec(name)?.[1];
  return last === undefined ? undefined : `block ${last}`;
}

/** The usual one: VNodes while they can be read, else blocks if that helps. */
export function usualGrouping(vnodes: readonly string[]): Grouping {
  if (vnodes.length <= cardsReadable) return "VNodes";
  return groupsOf(vnodes, "blocks", () => "").length <= vnodes.length / 2 ? "blocks" : "VNodes";
}

/** In the order of their first members. What has no host or no number stands alone. */
export function groupsOf(vnodes: readonly string[], grouping: Grouping, hostOf: (vnode: string) => string): Group[] {
  const keyOf = (vnode: string): string | undefined =>
    grouping === "VNodes" ? undefined : grouping === "blocks" ? blockOf(vnode) : hostOf(vnode) || undefined;
  const groups = new Map<string, { title: string; members: string[] }>();
  for (const vnode of vnodes) {
    const key = keyOf(vnode);
    const id = key === undefined ? `vnode ${vnode}` : `group ${key}`;
    const group = groups.get(id) ?? { title: key ?? vnode, members: [] };
    group.members.push(vnode);
    groups.set(id, group);
  }
  return Array.from(groups, ([id, { title, members }]) =>
    // A block of one is that VNode.
    members.length === 1 && grouping !== "machines"
      ? { id: members[0] as string, title: members[0] as string, members }
      : { id, title, members },
  );
}

/** A group that was opened shows its members one by one. */
export function opened(groups: readonly Group[], open: ReadonlySet<string>): Group[] {
  return groups.flatMap((group) =>
    open.has(group.id) ? group.members.map((id) => ({ id, title: id, members: [id] })) : [group],
  );
}

/** One edge between two groups for all of their members, never back to a group that stands before: those are told apart by `orders`. */
export interface GroupEdge extends LayoutEdge {
  /** VNodes' edges that it stands for. */
  readonly count: number;
}

export function edgesBetween(groups: readonly Group[], edges: readonly LayoutEdge[]): GroupEdge[] {
  const groupOf = new Map(groups.flatMap((group) => group.members.map((vnode) => [vnode, group.id] as const)));
  const found = new Map<string, { from: string; to: string; kind: string; count: number }>();
  for (const { from, to, kind } of edges) {
    const [source, target] = [groupOf.get(from), groupOf.get(to)];
    if (source === undefined || target === undefined || source === target) continue;
    const tie = kind === "tie";
    const id = `${source} > ${target}${tie ? " tie" : ""}`;
    const edge = found.get(id) ?? { from: source, to: target, kind: tie ? "tie" : kind, count: 0 };
    edge.count += 1;
    found.set(id, edge);
  }
  return Array.from(found, ([id, edge]) => ({ id, ...edge }));
}
