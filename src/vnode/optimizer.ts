// One update of a VNode's weights in place: clipping by the norm of its gradient, then the optimizer over the
// decaying and the other parameters. Nothing here uses the machine's own transcendental functions.

import { fail } from "../core/errors.ts";
import { pow } from "../core/numbers/math.ts";
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
  /** What the gradient is multiplied with: a lane that learns by itself has summed its share of a step alone. */
  readonly scale: number;
  /** Counts from 0. */
  readonly step: number;
  /** Names the place in errors. */
  readonly what: string;
}

export interface Updated {
  /** Of the gradient before clipping. */
  readonly norm: number;
  /** Of the new weights. */
  readonly digest: string;
}

/** Applies the accumulated gradient. A gradient with NaN or infinity changes nothing. */
export async function update(
  state: VNodeState,
  layout: Layout,
  gradients: Gradients,
  executor: Executor,
  options: UpdateOptions,
): Promise<Updated> {
  const { clipNorm, scale } = options;
  const squares = squaresCalls(layout, gradients);
  const updates = (clip: number) => [
    ...updateCalls(state, layout, gradients, scale * clip, options),
    state.digestCall(),
  ];
  // One message to a worker, unless the norm decides the scale.
  const first = await executor.kernels(clipNorm > 0 ? squares : [...squares, ...updates(1)]);
  const norm = scale * Math.sqrt(squares.reduce((sum, _, i) => sum + (first[i]?.value ?? Number.NaN), 0));
  if (!Number.isFinite(norm))
    fail("out_of_range", `the gradient of ${options.what} has NaN or infinity: lower the learning rate or clip`);
  const last = clipNorm > 0 ? await executor.kernels(updates(norm > clipNorm ? clipNorm / norm : 1)) : first;
  return { norm, digest: last.at(-1)?.digest as string };
}

function squaresCalls({ sparseLength, weightLength }: Layout, gradients: Gradients): KernelCall[] {
  const ranges = [
    { start: 0, length: sparseLength },
    { start: sparseLength, length: weightLength - sparseLength },
  ];
  return ranges
    .filter(({ length }) => length > 0)
    .map(({ start, length }) => ({ kind: "sumOfSquares", of: gradients.spanAt(start, length) }));
}

function updateCalls(
  state: VNodeState,
  { sparseLength, decayLength, weightLength }: Layout,
  gradients: Gradients,
  gradientScale: number,
  options: UpdateOptions,
): KernelCall[] {
  // Without decay all weights are alike.
  const decayEnd = options.optimizer.weightDecay === 0 ? weightLength : decayLength;
  const ranges = [
    { start: 0, length: sparseLength, decays: true },
    { start: sparseLength, length: decayEnd - sparseLength, decays: true },
    { start: decayEnd, length: weightLength - decayEnd, decays: false },
  ];
  return ranges
    .filter(({ length }) => length > 0)
    .map(({ start, length, decays }) => callOf(state, gradients, start, length, decays, gradientScale, options));
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
