// A VNode's place in its network: the edges it hears and speaks on, and how many microbatches it may have in
// flight. Everything follows from the plan alone.

import { assert } from "../core/assert.ts";
import { fail } from "../core/errors.ts";
import type { EdgeId, VNodeId } from "../core/ids.ts";
import { paddedElements } from "../network/lanes.ts";
import type { Plan, PlanEdge, VNodePlan } from "../network/plan.ts";

export interface Role {
  readonly vnode: VNodeId;
  /** Which copy it is, where there are several. */
  readonly copy?: VNodePlan["copy"];
  /** Elements that copies add up. */
  readonly elements: number;
  /** In plan order, which is the order in which gradients of several edges are added. */
  readonly activationsIn: readonly PlanEdge[];
  readonly activationsOut: readonly PlanEdge[];
  readonly tiesIn: readonly PlanEdge[];
  readonly tiesOut: readonly PlanEdge[];
  /** To the copies in other lanes that add up a shard, gradients or what a round has taught: parts go there, sums come back. */
  readonly reducesOut: readonly PlanEdge[];
  /** From the copies whose parts of a shard are added up here, in the order of their lanes. */
  readonly reducesIn: readonly PlanEdge[];
  /** False where nothing is learned from here on: then there is no backward pass. */
  readonly learns: boolean;
  /**
   * Microbatches between forward and backward, at least: the VNode's distance to the end, as in 1F1B. Its host allows
   * more where messages travel for long (pnode/training/pace.ts).
   */
  readonly window: number;
}

export function roleOf(plan: Plan, vnode: VNodeId): Role {
  const own = plan.vnodes.find((candidate) => candidate.id === vnode);
  if (own === undefined) fail("not_found", `network ${plan.name} has no VNode ${vnode}`);
  const into = plan.edges.filter((edge) => edge.to === vnode);
  const out = plan.edges.filter((edge) => edge.from === vnode);
  const learns = own.role !== "passes";
  assert(learns || ![...into, ...out].some((edge) => edge.gradient), `${vnode} learns if gradients pass through it`);
  return {
    vnode,
    copy: own.copy,
    elements: paddedElements(own),
    activationsIn: into.filter((edge) => edge.kind === "activation"),
    activationsOut: out.filter((edge) => edge.kind === "activation"),
    tiesIn: into.filter((edge) => edge.kind === "tie"),
    tiesOut: out.filter((edge) => edge.kind === "tie"),
    reducesOut: out.filter((edge) => edge.kind === "reduce" || edge.kind === "outer"),
    reducesIn: into.filter((edge) => edge.kind === "reduce" || edge.kind === "outer"),
    learns,
    // One more than the distance keeps a VNode busy while a message is on its way.
    window: distanceToEnd(plan.edges, vnode) + 2,
  };
}

/** Edges on the longest way of activations from here to a VNode without successors. */
function distanceToEnd(edges: readonly PlanEdge[], from: VNodeId): number {
  const known = new Map<VNodeId, number>();
  const successors = new Map<VNodeId, VNodeId[]>();
  for (const edge of edges)
    if (edge.kind === "activation") successors.set(edge.from, [...(successors.get(edge.from) ?? []), edge.to]);
  // Iterative, since a network may be thousands of VNodes deep.
  const stack = [from];
  while (stack.length > 0) {
    const vnode = stack[stack.length - 1] as VNodeId;
    const next = successors.get(vnode) ?? [];
    const open = next.filter((other) => !known.has(other));
    if (open.length > 0) {
      stack.push(...open);
      continue;
    }
    known.set(
      vnode,
      next.reduce((longest, other) => Math.max(longest, 1 + (known.get(other) ?? 0)), 0),
    );
    stack.pop();
  }
  return known.get(from) ?? 0;
}

/** The edge on which a message travels to this VNode, or undefined if it does not. */
export function edgeToward(role: Role, edge: EdgeId, direction: "forward" | "backward"): PlanEdge | undefined {
  const heard =
    direction === "forward"
      ? [...role.activationsIn, ...role.tiesIn, ...role.reducesIn]
      : [...role.activationsOut, ...role.tiesOut, ...role.reducesOut].filter((candidate) => candidate.gradient);
  return heard.find((candidate) => candidate.id === edge);
}
