// Gradients on float16 edges travel multiplied by a power of two: they are often smaller than float16 can hold. The
// sender's graph scales up, the receiver's graph scales down, so nobody between them needs to know.

import { float32 } from "../../core/tensor.ts";
import type { GraphModel, GraphNode } from "../../graph/model.ts";
import type { PortPlan, TrainingGraphs, VNodePlan } from "../plan.ts";

/** Holds gradients from 6e-11 up to 63; a power of two changes no digits. */
export const halfGradientScale = 1024;

function isScaled({ wire, gradient }: PortPlan): boolean {
  return gradient && wire === "float16";
}

/** Activation edges only: the gradient of a tied matrix is a sum over many rows and large enough. */
export function scaleGradients(graphs: TrainingGraphs, vnode: VNodePlan): TrainingGraphs {
  const sent = vnode.inputs
    .filter((port) => isScaled(port) && port.kind === "activation")
    .map(({ name }) => `grad:${name}`);
  const received = vnode.outputs.filter(isScaled).map(({ name }) => `grad:${name}`);
  if (sent.length === 0 && received.length === 0) return graphs;
  if (graphs.backward === undefined) return { ...graphs, forward: scaleOutputs(graphs.forward, sent) };
  return { ...graphs, backward: scaleInputs(scaleOutputs(graphs.backward, sent), received) };
}

function scaleOutputs(model: GraphModel, names: readonly string[]): GraphModel {
  const scaled = new Set(names.filter((name) => model.outputs.some((output) => output.name === name)));
  if (scaled.size === 0) return model;
  const renamed = (name: string) => (scaled.has(name) ? `unscaled:${name}` : name);
  const nodes = model.nodes.map((node) => ({
    ...node,
    inputs: node.inputs.map(renamed),
    outputs: node.outputs.map(renamed),
  }));
  const products = [...scaled].map((name) => product(renamed(name), "scale:up", name));
  return {
    ...model,
    nodes: [...nodes, ...products],
    constants: { ...model.constants, "scale:up": float32([], [halfGradientScale]) },
  };
}

function scaleInputs(model: GraphModel, names: readonly string[]): GraphModel {
  const scaled = new Set(names.filter((name) => model.inputs.some((input) => input.name === name)));
  if (scaled.size === 0) return model;
  const renamed = (name: string) => (scaled.has(name) ? `unscaled:${name}` : name);
  const nodes = model.nodes.map((node) => ({ ...node, inputs: node.inputs.map(renamed) }));
  const products = [...scaled].map((name) => product(name, "scale:down", renamed(name)));
  return {
    ...model,
    nodes: [...products, ...nodes],
    constants: { ...model.constants, "scale:down": float32([], [1 / halfGradientScale]) },
  };
}

function product(from: string, factor: string, to: string): GraphNode {
  return { op: "Mul", name: `scale:${to}`, inputs: [from, factor], outputs: [to], attributes: {} };
}
