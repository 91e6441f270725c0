// How far an optimizer can move a weight between two checkpoints, whatever the gradients were. A state that moved further did not come from that
// optimizer: nobody has to repeat anything to know. It finds no small lie; it bounds what one lie that nobody repeats can do.

import type { OptimizerPlan } from "../../../network/plan.ts";
import { learningRateAt, type SessionIdentity } from "../../../network/settings/session.ts";

/** Of each weight: |after - before| <= fixed + share * |before|. */
export interface MoveBound {
  readonly fixed: number;
  readonly share: number;
  /** Of its moments: |first| <= moment * sqrt(second); absent where there is no second one. */
  readonly moment?: number;
  /** Of its velocity; absent where it has none. */
  readonly velocity?: number;
}

type Part = Pick<SessionIdentity, "learningRate" | "steps" | "clipNorm">;

/** Sums of float32 and their rounding: far less than what it is to find. */
const slack = 1.001;
/** Of a weight, at each step. */
const rounding = 2 ** -22;

/** Of the updates after step `from` up to step `to`; undefined if the optimizer has no bound. */
export function moveBoundOf(optimizer: OptimizerPlan, session: Part, from: number, to: number): MoveBound | undefined {
  if (optimizer.kind === "sgd") return sgdBound(optimizer, session, from, to);
  const moment = momentBound(optimizer);
  if (moment === undefined) return undefined;
  const { beta1, beta2, weightDecay, kind } = optimizer;
  const shrinks = kind === "adamw" ? weightDecay : 0;
  let [fixed, share] = [0, 0];
  for (let step = from; step < to; step++) {
    const rate = learningRateAt(session, step);
    const corrected = Math.sqrt(1 - beta2 ** (step + 1)) / (1 - beta1 ** (step + 1));
    fixed += rate * (moment * corrected * slack + shrinks * fixed);
    share += rate * shrinks * (1 + share) + rounding;
  }
  return { fixed, share, moment: moment * slack };
}

/**
 * The least C for which |m| <= C sqrt(v) stays true with every gradient, once it is: by Cauchy and Schwarz over m = b1 m + (1 - b1) g and
 * v = b2 v + (1 - b2) g g. A state that keeps it cannot make the next owner, who is honest, move too far.
 */
function momentBound({ beta1, beta2 }: Extract<OptimizerPlan, { beta1: number }>): number | undefined {
  if (beta1 ** 2 >= beta2 || beta2 >= 1) return undefined;
  return (1 - beta1) / Math.sqrt((1 - beta2) * (1 - beta1 ** 2 / beta2));
}

/** Only clipping bounds a gradient. */
function sgdBound(
  { momentum, weightDecay }: Extract<OptimizerPlan, { kind: "sgd" }>,
  session: Part,
  from: number,
  to: number,
): MoveBound | undefined {
  if (session.clipNorm === 0 || weightDecay !== 0 || momentum >= 1) return undefined;
  const velocity = (session.clipNorm / (1 - momentum)) * slack;
  let fixed = 0;
  for (let step = from; step < to; step++) fixed += learningRateAt(session, step) * velocity;
  return { fixed, share: rounding * (to - from), ...(momentum > 0 ? { velocity } : {}) };
}
