// How much memory a VNode needs of its host. Orchestrators place by it, PNodes refuse by it.

import { elementCount } from "../core/tensor.ts";
import { cacheBytesPerPosition, cachePositionsMax, generationWay } from "./graphs/generation.ts";
import type { Plan, VNodePlan } from "./plan.ts";
import type { WeightFormat } from "./weight-format.ts";

/** Graphs, sessions of the runtime and message buffers of one VNode. */
const workspaceBytes = 4 << 20;

export function parametersOf(vnode: VNodePlan): number {
  return vnode.parameters.reduce((sum, parameter) => sum + elementCount(parameter.shape), 0);
}

function learntOf(vnode: VNodePlan): number {
  return parametersOf({ ...vnode, parameters: vnode.parameters.filter(({ frozen }) => !frozen) });
}

/** More are not reckoned with, so hosts allow no more, however far away the others are. */
export const microbatchesInFlightMax = 16;

/** Weights, and of what learns gradients and two moments, in float32; activations of the microbatches in flight. */
export function memoryBytesOf(vnode: VNodePlan, batch: number, microbatches: number, hasRounds = false): number {
  const samplesInFlight = Math.ceil(batch / microbatches) * Math.min(microbatches, microbatchesInFlightMax);
  // Rounds keep where they began, and a velocity.
  const perLearnt = hasRounds ? 24 : 16;
  const learnt = learntOf(vnode);
  const weights = learnt * perLearnt + (parametersOf(vnode) - learnt) * 4;
  return weights + vnode.savedBytesPerSample * samplesInFlight + workspaceBytes;
}

/** Weights as the runtime packs them, and of some a second form; one VNode's at a time are in memory more often. */
const servedWeightBytes = { float32: 4 * 1.3, "8bit": 2.4, "4bit": 1.4 };

/** Weights, those of ties included; keys and values of as many positions as are kept. */
export function servingBytesOf(plan: Plan, vnode: VNodePlan, format?: WeightFormat): number {
  const tied = vnode.inputs.filter(({ kind }) => kind === "tie");
  const weights = parametersOf(vnode) + tied.reduce((sum, { shape }) => sum + elementCount(shape), 0);
  const caches = cacheBytesPerPosition(vnode) * cachePositionsMax(plan);
  return Math.ceil(weights * servedWeightBytes[format ?? "float32"]) + caches + workspaceBytes;
}

/** Of all that a model needs to answer on one machine. */
export function wholeServingBytesOf(plan: Plan, format?: WeightFormat): number {
  const { needed } = generationWay(plan);
  const own = plan.vnodes.filter(({ id }) => needed.has(id));
  return own.reduce((sum, vnode) => sum + servingBytesOf(plan, vnode, format), 0);
}
