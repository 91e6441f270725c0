// What the copies of a VNode in several lanes have to add up in a step, and how far that is: parts are sent, a shard is summed,
// sums are taken. process.ts does what this says; numbers are reduce.ts's.

import { outerShape, shardOf } from "../../network/lanes.ts";
import type { PlanEdge } from "../../network/plan.ts";
import type { Counted, RoundBook } from "../book.ts";
import type { Effect, PortGradient } from "../effects.ts";
import type { Listening } from "../listening.ts";
import { wholeStep } from "../names.ts";
import type { Role } from "../role.ts";
import { addedUpIn, type Schedule } from "../schedule.ts";
import type { StepWork } from "../step-work.ts";

type Adding<Payload> = Extract<Effect<Payload, never>, { kind: "reduceParts" | "reduceSum" }>;

export interface Across {
  readonly of: "reduce" | "outer" | undefined;
  /** From the copies whose parts are added up here. */
  readonly ins: readonly PlanEdge[];
  /** To those that add up the other shards. */
  readonly outs: readonly PlanEdge[];
  /** A shard is added up here, if only of the own part. */
  readonly sums: boolean;
  /** In a round, whose work counts. */
  readonly counted: readonly Counted[];
}

/** What a VNode exchanges with its copies in a step; nothing where it has none, or they are apart. */
export function acrossLanes(role: Role, schedule: Schedule, step: number, book: RoundBook): Across {
  const of = addedUpIn(schedule, step);
  const [ins, outs] = [role.reducesIn, role.reducesOut].map((edges) => edges.filter(({ kind }) => kind === of));
  if (of === "outer" && ins && outs) return aroundRound(role, ins, outs, book.counted(step));
  const isShared = (ins?.length ?? 0) + (outs?.length ?? 0) > 0;
  return { of: isShared ? of : undefined, ins: ins ?? [], outs: outs ?? [], sums: ins?.length !== 0, counted: [] };
}

/** Those whose work counts cut what they learned among themselves: nobody waits for the shard of one who is gone. */
function aroundRound(
  { copy, elements }: Role,
  ins: readonly PlanEdge[],
  outs: readonly PlanEdge[],
  counted: readonly Counted[],
): Across {
  const adds = (lane: number) => {
    const at = counted.findIndex((one) => one.lane === lane);
    return at >= 0 && shardOf(elements, counted.length, at).length > 0;
  };
  const isCounted = (lane: string) => counted.some((one) => one.lane === Number(lane));
  const sums = copy !== undefined && adds(copy.lane);
  return {
    // VNodes that learn nothing have no edges to their copies.
    of: ins.length + outs.length > 0 ? "outer" : undefined,
    ins: sums ? ins.filter(({ toPort }) => isCounted(toPort)) : [],
    outs: outs.filter(({ fromPort }) => adds(Number(fromPort))),
    sums,
    counted,
  };
}

/** Of a part or sum on an edge at a round's end: its shard is that of the lane it goes to. */
export function shapeAcross(edge: PlanEdge, { elements }: Role, counted: readonly Counted[]): readonly number[] {
  const at = counted.findIndex(({ lane }) => lane === Number(edge.fromPort));
  return at < 0 ? edge.shape : outerShape(shardOf(elements, counted.length, at).length);
}

/** What is to be done next to add up; undefined while parts are missing, or once nothing is left but to take the sums. */
export function nextAddition<Payload>(
  { of, ins, sums, counted }: Across,
  work: StepWork,
  listening: Listening<Payload>,
  ties: readonly PlanEdge[],
): Adding<Payload> | undefined {
  const { step } = work;
  if (of === undefined) return undefined;
  if (!work.hasBegun("parts")) {
    // What lent weights come back with belongs to the gradient, and is in what was learned already.
    const lent = of === "reduce" ? listening.takeGradients(ties, step, wholeStep) : [];
    return lent && { kind: "reduceParts", step, of, ties: lent, counted };
  }
  if (!sums || work.hasBegun("sum") || !work.hasFinished("parts")) return undefined;
  const parts = listening.takeParts(ins, step);
  return parts && { kind: "reduceSum", step, of, parts, counted };
}

/** What the other copies have added up, once all of it is there and the own shard is summed. */
export function takeSums<Payload>(
  { sums, outs }: Across,
  work: StepWork,
  listening: Listening<Payload>,
): PortGradient<Payload>[] | undefined {
  const isSummed = work.hasFinished("parts") && (!sums || work.hasFinished("sum"));
  return isSummed ? listening.takeGradients(outs, work.step, wholeStep) : undefined;
}
