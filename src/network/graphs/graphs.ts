// The graphs that engines run for a VNode: training, evaluation, inference. Equal plans and options give equal
// graphs, node for node, since the graph's bytes are part of what decides a session's bits.

import { assert } from "../../core/assert.ts";
import { Shared } from "../../core/caches/shared.ts";
import { float32 } from "../../core/tensor.ts";
import { GraphBuilder } from "../../graph/builder.ts";
import { deriveBackward, deriveTraining } from "../../graph/derive.ts";
import { lowerModel } from "../../graph/lower.ts";
import type { GraphModel } from "../../graph/model.ts";
import type { Value } from "../../graph/operators/operator.ts";
import type { BuildOptions, Plan, TrainingGraphs, VNodePlan } from "../plan.ts";
import { buildForward, type Forward } from "./forward.ts";
import type { Counts } from "./losses.ts";
import { scaleGradients } from "./scaling.ts";

/** By VNode of a plan: graphs never change, and deriving them takes long. */
const derived = new WeakMap<VNodePlan, Shared<string, TrainingGraphs>>();

export function buildTraining(_plan: Plan, vnode: VNodePlan, options: BuildOptions): TrainingGraphs {
  const known = derived.get(vnode) ?? new Shared<string, TrainingGraphs>();
  derived.set(vnode, known);
  const { microbatch, lossScale } = options;
  return known.get(`${microbatch} ${lossScale}`, () => scaleGradients(trainingGraphs(vnode, options), vnode));
}

function trainingGraphs(vnode: VNodePlan, options: BuildOptions): TrainingGraphs {
  const graph = new GraphBuilder(vnode.id);
  const forward = buildForward(graph, vnode, { batch: options.microbatch, training: true });
  for (const port of vnode.outputs) graph.output(forward.valueOf(port), port.name);
  if (vnode.role === "passes") return { forward: lowerModel(graph.build()), saved: [], sparse: [] };

  const gradientsOf = [
    ...vnode.inputs.filter((port) => port.gradient).map((port) => port.name),
    ...vnode.parameters.filter(({ frozen }) => !frozen).map((parameter) => parameter.name),
  ];
  const from = vnode.outputs.filter((port) => port.gradient).map((port) => port.name);
  if (vnode.loss === undefined) return deriveBackward(graph.build(), { gradientsOf, from });

  graph.output(lossOf(forward), vnode.loss);
  const { lossScale } = options;
  if (from.length > 0) {
    const derived = deriveBackward(graph.build(), { gradientsOf, from: [...from, vnode.loss] });
    return { ...derived, backward: bindInput(derived.backward, `grad:${vnode.loss}`, lossScale) };
  }
  const training = deriveTraining(graph.build(), { loss: vnode.loss, lossScale, gradientsOf });
  const forwardOutputs = new Set([...vnode.outputs.map((port) => port.name), vnode.loss]);
  return {
    forward: training.graph,
    saved: training.graph.outputs.filter((output) => !forwardOutputs.has(output.name)),
    sparse: training.sparse,
  };
}

function lossOf(forward: Forward): Value {
  assert(forward.loss !== undefined, "a VNode with a cost has a loss");
  return forward.loss;
}

/** Other VNodes send gradients of their inputs; the gradient of a loss is known beforehand. */
function bindInput(graph: GraphModel, name: string, value: number): GraphModel {
  const inputs = graph.inputs.filter((input) => input.name !== name);
  if (inputs.length === graph.inputs.length) return graph;
  return { ...graph, inputs, constants: { ...graph.constants, [name]: float32([], [value]) } };
}

export interface EvaluationOptions {
  /** Samples in one microbatch. */
  readonly microbatch: number;
  /** Also gives network outputs that feed no edge, such as whole logits. */
  readonly results?: boolean;
}

/**
 * Forward only, without chance. A VNode with a cost also gives `loss`, and if it judges classes `correct` and
 * `counted`: how many labels its largest scores hit, of how many. All are float32 scalars.
 */
export function buildEvaluation(_plan: Plan, vnode: VNodePlan, options: EvaluationOptions): GraphModel {
  const graph = new GraphBuilder(`${vnode.id}.evaluation`);
  const { results = false, microbatch } = options;
  const forward = buildForward(graph, vnode, { batch: microbatch, training: false, results });
  for (const port of portsOf(vnode, results)) graph.output(forward.valueOf(port), port.name);
  if (vnode.loss !== undefined) graph.output(lossOf(forward), vnode.loss);
  if (forward.counts.length > 0) {
    const sum = (name: keyof Counts) =>
      forward.counts.map((counts) => counts[name]).reduce((total, count) => graph.op("Add", [total, count]));
    graph.output(sum("correct"), "correct");
    graph.output(sum("counted"), "counted");
  }
  return lowerModel(graph.build());
}

/** Forward without labels: output ports and network outputs of the VNode. */
export function buildInference(_plan: Plan, vnode: VNodePlan, options: { readonly microbatch: number }): GraphModel {
  const graph = new GraphBuilder(`${vnode.id}.inference`);
  const forward = buildForward(graph, vnode, {
    batch: options.microbatch,
    training: false,
    results: true,
    judge: false,
  });
  for (const port of portsOf(vnode, true)) graph.output(forward.valueOf(port), port.name);
  return lowerModel(graph.build());
}

function portsOf(vnode: VNodePlan, results: boolean) {
  return results ? [...vnode.outputs, ...vnode.results] : vnode.outputs;
}
