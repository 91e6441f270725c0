// One update of a VNode's weights in place: clipping by the norm of its gradient, then the optimizer over the
// decaying and the other parameters. Nothing here uses the machine's own transcendental functions.

import { fail } from "../core/errors.ts";
import { pow } from "../core/math.ts";
import type { Executor, KernelCall, SharedBytes } from "../engine/engine.ts";
import type { OptimizerPlan } from "../network/plan.ts";
import type { Gradients } from "./gradients.ts";
import { type Layout, spanOf } from "./layout.ts";
import type { VNodeState } from "./state.ts";

export interface UpdateOptions {
  readonly optimizer: OptimizerPlan;
  readonly rate: number;
  /** 0: no clipping. */
  readonly clipNorm: number;
  /** Counts from 0. */
  readonly step: number;
  /** Names the place in errors. */
  readonly what: string;
}

/** Applies the accumulated gradient; returns its norm before clipping. */
export async function update(
  state: VNodeState,
  layout: Layout,
  gradients: Gradients,
  executor: Executor,
  options: UpdateOptions,
): Promise<number> {
  const { sparseLength, decayLength, weightLength } = layout;
  let squares = 0;
  for (const [start, end] of [
    [0, sparseLength],
    [sparseLength, weightLength],
  ] as const) {
    if (end === start) continue;
    const result = await executor.kernel({ kind: "sumOfSquares", of: gradients.spanAt(start, end - start) });
    squares += result.value ?? Number.NaN;
  }
  const norm = Math.sqrt(squares);
  if (!Number.isFinite(norm))
    fail("out_of_range", `the gradient of ${options.what} has NaN or infinity: lower the learning rate or clip`);
  const { clipNorm } = options;
  const gradientScale = clipNorm > 0 && norm > clipNorm ? clipNorm / norm : 1;
  const ranges = [
    { start: 0, length: sparseLength, decays: true },
    { start: sparseLength, length: decayLength - sparseLength, decays: true },
    { start: decayLength, length: weightLength - decayLength, decays: false },
  ];
  for (const { start, length, decays } of ranges) {
    if (length === 0) continue;
    await executor.kernel(callOf(state, gradients, start, length, decays, gradientScale, options));
  }
  return norm;
}

function callOf(
  state: VNodeState,
  gradients: Gradients,
  start: number,
  length: number,
  decays: boolean,
  gradientScale: number,
  { optimizer, rate, step }: UpdateOptions,
): KernelCall {
  const span = (memory: SharedBytes) => spanOf(memory, start, length);
  const weights = span(state.part("weights"));
  const gradient = gradients.spanAt(start, length);
  const weightDecay = decays ? optimizer.weightDecay : 0;
  if (optimizer.kind === "sgd") {
    const { momentum } = optimizer;
    const velocity = momentum === 0 ? undefined : span(state.part("first"));
    return { kind: "sgd", weights, gradient, velocity, rate, momentum, weightDecay, gradientScale };
  }
  const { beta1, beta2, epsilon } = optimizer;
  return {
    kind: "adam",
    weights,
    gradient,
    first: span(state.part("first")),
    second: span(state.part("second")),
    rate,
    beta1,
    beta2,
    epsilon,
    weightDecay,
    decoupled: optimizer.kind === "adamw",
    correction1: 1 - pow(beta1, step + 1),
    correction2: 1 - pow(beta2, step + 1),
    gradientScale,
  };
}
