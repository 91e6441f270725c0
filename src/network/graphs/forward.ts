// The forward pass of a VNode for training and evaluation: its body's nodes, built one after the other.

import { assert } from "../../core/assert.ts";
import { elementCount, type Shape } from "../../core/tensor.ts";
import type { GraphBuilder } from "../../graph/builder.ts";
import type { Value } from "../../graph/operators/operator.ts";
import type { BodyInput, BodyNode } from "../body.ts";
import type { BuildSite } from "../catalogue/build-site.ts";
import { linearOperands } from "../catalogue/linear.ts";
import type { PortPlan, VNodePlan } from "../plan.ts";
import { ForwardSite, type ForwardState } from "./forward-site.ts";
import type { Counts } from "./losses.ts";

export interface ForwardOptions {
  /** Samples: the leading axis of every activation. */
  readonly batch: number;
  readonly training: boolean;
  /** Also network outputs that feed no edge, such as logits. */
  readonly results?: boolean;
  /** False leaves out costs and labels: inference. */
  readonly judge?: boolean;
}

export interface Forward {
  /** Sum over the VNode's costs. */
  readonly loss: Value | undefined;
  /** Of the cost nodes that judge classes; evaluation only. */
  readonly counts: readonly Counts[];
  /** The value of a port of `outputs` or `results`. */
  valueOf(port: PortPlan): Value;
}

/** Larger logits of an untied head are judged in chunks, at the price of turning its matrix. */
const wholeLogitsMax = 1 << 22;

/** Declares the graph's inputs (ports, parameters, chances; in this order) and builds the body. */
export function buildForward(graph: GraphBuilder, vnode: VNodePlan, options: ForwardOptions): Forward {
  const inputs = new Map<string, Value>();
  const judge = options.judge ?? true;
  for (const port of vnode.inputs)
    if (judge || port.source !== "labels")
      inputs.set(port.name, graph.input(port.name, portType(port), portShape(port, options.batch)));
  for (const { name, shape } of vnode.parameters) inputs.set(name, graph.input(name, "float32", shape));
  if (options.training)
    for (const { name, shape } of vnode.chances)
      inputs.set(name, graph.input(name, "float32", [options.batch, ...shape]));

  const { batch, training } = options;
  const state: ForwardState = { graph, batch, training, inputs, values: new Map(), counts: [] };
  const headless = headsJudgedInPlace(vnode, options);
  const losses: Value[] = [];
  for (const node of vnode.body) {
    if (headless.has(node.id) || (node.nodeType.cost && !judge)) continue;
    const head = headOf(node, vnode, headless);
    const site = new ForwardSite(state, node);
    const values = head === undefined ? node.nodeType.build(site) : [judgeHead(state, head, site)];
    for (const [slot, value] of values.entries()) state.values.set(`${node.id}.${slot}`, value);
    if (node.nodeType.cost) losses.push(values[0]!);
  }
  return {
    loss: losses.length === 0 ? undefined : losses.reduce((sum, loss) => graph.op("Add", [sum, loss])),
    counts: state.counts,
    valueOf: (port) => {
      const value = state.values.get(port.name.split(">", 1)[0]!);
      assert(value !== undefined, `VNode ${vnode.id} computes ${port.name}`);
      return value;
    },
  };
}

export function portType(port: PortPlan): "float32" | "int32" {
  return port.wire === "int32" ? "int32" : "float32";
}

function portShape(port: PortPlan, batch: number): Shape {
  return port.kind === "tie" ? port.shape : [batch, ...port.shape];
}

/** Linear nodes whose logits go to a cross-entropy in this VNode and nowhere else: they need not be kept whole. */
function headsJudgedInPlace(vnode: VNodePlan, { batch, results, judge }: ForwardOptions): Set<string> {
  const uses = new Map<string, number>();
  for (const node of vnode.body)
    for (const input of node.inputs) if (input.kind === "node") uses.set(input.node, (uses.get(input.node) ?? 0) + 1);
  const ports = results ? [...vnode.outputs, ...vnode.results] : vnode.outputs;
  const sent = new Set(ports.map((port) => port.name.split(">", 1)[0]!));
  const heads = new Set<string>();
  if (judge === false) return heads;
  for (const cost of vnode.body) {
    if (cost.nodeType.type !== "cost" || cost.config.text("cost_function") !== "ce_logits") continue;
    const head = producerIn(vnode, cost.inputs[0]!);
    if (head?.nodeType.type !== "linear" || uses.get(head.id) !== 1 || sent.has(`${head.id}.0`)) continue;
    if (head.config.has("adapter_rank")) continue;
    const tied = head.tie?.layout === "out_in" && head.description.parameters.length === 0;
    const large = batch * elementCount(head.description.outputs[0]!.shape) > wholeLogitsMax;
    if (tied || large) heads.add(head.id);
  }
  return heads;
}

function producerIn(vnode: VNodePlan, input: BodyInput): BodyNode | undefined {
  return input.kind === "node" ? vnode.body.find((node) => node.id === input.node) : undefined;
}

function headOf(cost: BodyNode, vnode: VNodePlan, headless: ReadonlySet<string>): BodyNode | undefined {
  if (!cost.nodeType.cost) return undefined;
  const head = producerIn(vnode, cost.inputs[0]!);
  return head !== undefined && headless.has(head.id) ? head : undefined;
}

function judgeHead(state: ForwardState, head: BodyNode, cost: BuildSite): Value {
  const site = new ForwardSite(state, head);
  const { weight, bias, transposed } = linearOperands(site);
  return cost.linearCrossEntropy(site.input(0), weight, bias, transposed);
}
