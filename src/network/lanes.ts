// Lanes: copies of a whole pipeline, each with its share of every batch. A plan with lanes has every VNode and edge of the
// network once for each lane, and edges between the copies of a VNode on which gradients are added up. The first lane keeps
// the network's own names. It depends on the definition and the number of lanes alone, so placement never changes bits.

import { fail } from "../core/errors.ts";
import type { EdgeId, VNodeId } from "../core/ids.ts";
import { elementCount } from "../core/tensor.ts";
import type { Plan, PlanEdge, VNodePlan } from "./plan.ts";
import type { SessionIdentity } from "./settings/session.ts";

/** Parameters start at multiples of 64 bytes, which is what wide instructions like best. */
export const alignElements = 16;
/** Shards are whole blocks of this many elements. */
export const shardBlockElements = 256;

const laneMark = "#";

/** Of a VNode or an edge. Node ids hold no mark, so that no copy is called like something else. */
function named<Id extends string>(id: Id, lane: number): Id {
  return (lane === 0 ? id : `${id}${laneMark}${lane}`) as Id;
}

/** Elements of all parameters that learn, each with its padding: how long gradients are when they are added up over lanes. */
export function paddedElements({ parameters }: Pick<VNodePlan, "parameters">): number {
  return parameters
    .filter(({ frozen }) => !frozen)
    .reduce((sum, { shape }) => sum + Math.ceil(elementCount(shape) / alignElements) * alignElements, 0);
}

export interface Shard {
  readonly start: number;
  readonly length: number;
}

/** The part of `elements` that the copy in that lane adds up for all of them; may be empty. */
export function shardOf(elements: number, lanes: number, lane: number): Shard {
  const blocks = Math.ceil(elements / shardBlockElements);
  const from = (index: number) => Math.min(elements, Math.floor((blocks * index) / lanes) * shardBlockElements);
  return { start: from(lane), length: from(lane + 1) - from(lane) };
}

/** A shard as it travels in eight bits: a scale for each block, the last of which may be filled up with zeros. */
export function outerShape(length: number): readonly [number, number] {
  return [Math.ceil(length / shardBlockElements), shardBlockElements];
}

/** Lanes share what is learned here: it has weights, and gradients reach them. */
function isShared({ role, parameters }: VNodePlan): boolean {
  return role !== "passes" && parameters.some(({ frozen }) => !frozen);
}

export function expandLanes(plan: Plan, settings: Pick<SessionIdentity, "lanes" | "sync">): Plan {
  const lanes = lanesOf(settings);
  if (lanes === 1) return plan;
  const all = Array.from({ length: lanes }, (_, lane) => lane);
  const copies = all.flatMap((lane) => plan.vnodes.map((vnode) => copyOf(vnode, lane, lanes)));
  return {
    ...plan,
    vnodes: copies.sort((a, b) => (a.id < b.id ? -1 : 1)),
    // Lane after lane: what is near in this order is placed near.
    order: all.flatMap((lane) => plan.order.map((id) => named(id, lane))),
    edges: [
      ...all.flatMap((lane) => plan.edges.map((edge) => edgeIn(edge, lane))),
      ...plan.vnodes
        .filter(isShared)
        .flatMap((vnode) => [
          ...edgesAcross(vnode, all, "reduce"),
          ...(settings.sync ? edgesAcross(vnode, all, "outer") : []),
        ]),
    ],
    colocations: all.flatMap((lane) => plan.colocations.map((group) => group.map((id) => named(id, lane)))),
  };
}

function copyOf(vnode: VNodePlan, lane: number, lanes: number): VNodePlan {
  return { ...vnode, id: named(vnode.id, lane), copy: { of: vnode.id, lane, lanes } };
}

/** Ports stay as they are: all copies of a VNode run the same graphs. */
function edgeIn(edge: PlanEdge, lane: number): PlanEdge {
  return { ...edge, id: named(edge.id, lane), from: named(edge.from, lane), to: named(edge.to, lane) };
}

/**
 * For each copy that adds up a shard and each other copy: its part of that shard goes forward, the sum comes back. Ports
 * are lanes: whose shard it is at the sender, whose part at the one who adds.
 */
function edgesAcross(vnode: VNodePlan, lanes: readonly number[], kind: "reduce" | "outer"): PlanEdge[] {
  const elements = paddedElements(vnode);
  return lanes.flatMap((to) => {
    const { length } = shardOf(elements, lanes.length, to);
    // Which shards copies add up in a round depends on whose work counts.
    if (length === 0 && kind === "reduce") return [];
    return lanes
      .filter((from) => from !== to)
      .map((from): PlanEdge => {
        const id = `${vnode.id}.${kind}:${from}>${to}` as EdgeId;
        const ends = {
          from: named(vnode.id, from),
          fromPort: String(to),
          to: named(vnode.id, to),
          toPort: String(from),
        };
        const content =
          kind === "reduce"
            ? ({ shape: [length], wire: "float32" } as const)
            : ({ shape: outerShape(length), wire: "int8" } as const);
        return { id, kind, ...ends, ...content, gradient: true };
      });
  });
}

/** The VNode of the network that a VNode of the plan is a copy of: graphs, names of weights and hashes are that one's. */
export function originalOf(plan: Plan, vnode: VNodePlan): VNodePlan {
  const { of = vnode.id } = vnode.copy ?? {};
  return plan.vnodes.find(({ id }) => id === of) ?? fail("not_found", `network ${plan.name} has no VNode ${of}`);
}

/** True for what has the network's own names: the first lane, whose states are the result. */
export function isFirstLane(vnode: VNodeId): boolean {
  return !vnode.includes(laneMark);
}

/** The lane that a VNode of the plan belongs to. */
export function laneOf(vnode: string): number {
  return Number(vnode.split(laneMark)[1] ?? 0);
}

/** The copy of a VNode in another lane. */
export function inLane(vnode: VNodeId, lane: number): VNodeId {
  return named(originalName(vnode) as VNodeId, lane);
}

/** What the VNode is called in the network. */
export function originalName(vnode: string): string {
  return vnode.split(laneMark, 1)[0] as string;
}

export type LaneSettings = Pick<SessionIdentity, "lanes" | "sync" | "microbatches" | "validationMicrobatches">;

export function lanesOf({ lanes = 1 }: Pick<SessionIdentity, "lanes">): number {
  return lanes;
}

/** What one lane takes of each step. */
export function laneShare(settings: LaneSettings): Omit<LaneSettings, "lanes"> {
  const lanes = lanesOf(settings);
  return {
    ...(settings.sync && { sync: settings.sync }),
    microbatches: settings.microbatches / lanes,
    validationMicrobatches: settings.validationMicrobatches / lanes,
  };
}

/** Why a session cannot have so many lanes; undefined if it can. */
export function whyNoLanes(
  settings: LaneSettings & Pick<SessionIdentity, "batch" | "steps"> & Partial<Pick<SessionIdentity, "numerics">>,
): string | undefined {
  const lanes = lanesOf(settings);
  const { microbatches, validationMicrobatches, batch, sync, steps, numerics } = settings;
  if (numerics === "mixed" && sync === undefined)
    return "lanes of several numerics classes do not add up step by step: give the session rounds (sync_every) whose lanes come and go (elastic), or choose one numerics";
  if (sync && lanes === 1) return "rounds are for lanes that learn apart for a while: give the session lanes, too";
  if (sync && sync.after + 2 > steps)
    return `rounds would begin after ${sync.after} steps, and the session has ${steps}: a round takes two at least, let them begin earlier (sync_after)`;
  if (batch % lanes !== 0) return `a batch of ${batch} cannot be shared by ${lanes} lanes: choose a divisor of it`;
  if (lanes > microbatches)
    return `${lanes} lanes cannot share ${microbatches} microbatches: give each lane at least one, as with ${lanes} microbatches`;
  if (microbatches % lanes !== 0)
    return `${microbatches} microbatches cannot be shared by ${lanes} lanes: choose a multiple of ${lanes}`;
  if (validationMicrobatches % lanes !== 0)
    return `${validationMicrobatches} microbatches of a validation cannot be shared by ${lanes} lanes: choose a multiple of ${lanes}`;
  return undefined;
}
