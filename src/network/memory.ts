// How much memory a VNode needs of its host. Orchestrators place by it, PNodes refuse by it.

import { elementCount, type Shape } from "../core/tensor.ts";
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

/** What a weight takes as the runtime keeps it: packed, in few bits with a scale for each block of 32, which the runtime has twice. */
const servedWeightBytes = { float32: 4.2, "8bit": 1.3, "4bit": 0.8 };

/**
 * What does not grow with the weights, for each VNode; making few bits of floats leaves holes in heaps. With what is kept for the program, 14 VNodes of 100 million
 * parameters claim what a PNode was seen to take in each format, within 2 % or more (bench/results.md).
 */
const servedWorkspaceBytes = { float32: workspaceBytes, "8bit": 12 << 20, "4bit": 12 << 20 };

/** Weights, those of ties included; keys and values of as many positions as are kept. */
export function servingBytesOf(plan: Plan, vnode: VNodePlan, format: WeightFormat | "float32" = "float32"): number {
  const tied = vnode.inputs.filter(({ kind }) => kind === "tie");
  // Matrices alone are kept in few bits; norms, biases and banks of adapters stay as they are.
  const bytesOf = (shape: Shape) => elementCount(shape) * servedWeightBytes[shape.length === 2 ? format : "float32"];
  const weights = [...vnode.parameters, ...tied].reduce((sum, { shape }) => sum + bytesOf(shape), 0);
  const caches = cacheBytesPerPosition(vnode) * cachePositionsMax(plan);
  return Math.ceil(weights) + caches + servedWorkspaceBytes[format];
}

/** Of all that a model needs to answer on one machine. */
export function wholeServingBytesOf(plan: Plan, format?: WeightFormat): number {
  const { needed } = generationWay(plan);
  const own = plan.vnodes.filter(({ id }) => needed.has(id));
  return own.reduce((sum, vnode) => sum + servingBytesOf(plan, vnode, format), 0);
}
