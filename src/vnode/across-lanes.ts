// What the copies of a VNode in several lanes have to add up in a step, and how far that is: parts are sent, a shard is summed,
// sums are taken. process.ts does what this says; numbers are reduce.ts's.

import type { PlanEdge } from "../network/plan.ts";
import type { Effect, PortGradient } from "./effects.ts";
import type { Listening } from "./listening.ts";
import { wholeStep } from "./names.ts";
import type { Role } from "./role.ts";
import { addedUpIn, type Schedule } from "./schedule.ts";
import type { StepWork } from "./step-work.ts";

type Adding<Payload> = Extract<Effect<Payload, never>, { kind: "reduceParts" | "reduceSum" }>;

export interface Across {
  readonly of: "reduce" | "outer" | undefined;
  /** From the copies whose parts are added up here. */
  readonly ins: readonly PlanEdge[];
  /** To those that add up the other shards. */
  readonly outs: readonly PlanEdge[];
}

/** What a VNode exchanges with its copies in a step; nothing where it has none, or they are apart. */
export function acrossLanes({ reducesIn, reducesOut }: Role, schedule: Schedule, step: number): Across {
  const of = addedUpIn(schedule, step);
  const isOf = ({ kind }: PlanEdge) => kind === of;
  const [ins, outs] = [reducesIn.filter(isOf), reducesOut.filter(isOf)];
  return { of: ins.length + outs.length > 0 ? of : undefined, ins, outs };
}

/** What is to be done next to add up; undefined while parts are missing, or once nothing is left but to take the sums. */
export function nextAddition<Payload>(
  { of, ins }: Across,
  work: StepWork,
  listening: Listening<Payload>,
  ties: readonly PlanEdge[],
): Adding<Payload> | undefined {
  const { step } = work;
  if (of === undefined) return undefined;
  if (!work.hasBegun("parts")) {
    // What lent weights come back with belongs to the gradient, and is in what was learned already.
    const lent = of === "reduce" ? listening.takeGradients(ties, step, wholeStep) : [];
    return lent && { kind: "reduceParts", step, of, ties: lent };
  }
  if (ins.length === 0 || work.hasBegun("sum") || !work.hasFinished("parts")) return undefined;
  const parts = listening.takeParts(ins, step);
  return parts && { kind: "reduceSum", step, of, parts };
}

/** What the other copies have added up, once all of it is there and the own shard is summed. */
export function takeSums<Payload>(
  { ins, outs }: Across,
  work: StepWork,
  listening: Listening<Payload>,
): PortGradient<Payload>[] | undefined {
  const isSummed = work.hasFinished("parts") && (ins.length === 0 || work.hasFinished("sum"));
  return isSummed ? listening.takeGradients(outs, work.step, wholeStep) : undefined;
}
