// The forward pass of a VNode for generating text, as a unit: graphs for any number of rows between its attentions
// (graph/unit.ts). It depends on the definition alone; nothing here is differentiated.

import { assert } from "../../core/assert.ts";
import { GraphBuilder } from "../../graph/builder.ts";
import { lowerModel } from "../../graph/lower.ts";
import type { Value } from "../../graph/operators/operator.ts";
import { anyRows } from "../../graph/rows.ts";
import {
  adaptersInput,
  hiddenOutput,
  logitsOutput,
  positionsInput,
  rowComposites,
  type UnitPlan,
} from "../../graph/unit.ts";
import type { BodyNode } from "../body.ts";
import { applyLinear, linearOperands } from "../catalogue/linear.ts";
import type { Plan, PortPlan, VNodePlan } from "../plan.ts";
import { cutAtAttention } from "./cut.ts";
import { portType } from "./forward.ts";
import {
  checkGenerates,
  contextOf,
  type GenerationHead,
  generationHead,
  usesAdapters,
  usesPositions,
} from "./generation.ts";
import { UnitSite, type UnitState } from "./unit-site.ts";

/** What a pass of explicit tensors gets from the head beside its logits has the names of ports. */
export function buildUnit(plan: Plan, vnode: VNodePlan): UnitPlan {
  const head = generationHead(plan);
  const isHead = head.vnode === vnode.id;
  for (const node of vnode.body) checkGenerates(plan, node);
  const graph = new GraphBuilder(vnode.id);
  const state: UnitState = {
    ...{ graph, context: contextOf(plan) },
    ...{ inputs: new Map(), values: new Map(), attentions: [] },
  };
  const weights = new Set<string>();
  for (const port of vnode.inputs) {
    if (port.source === "labels") continue;
    const isTie = port.kind === "tie";
    if (isTie) weights.add(port.name);
    const shape = isTie ? port.shape : [anyRows, 1, ...port.shape.slice(1)];
    state.inputs.set(port.name, graph.input(port.name, portType(port), shape));
  }
  for (const { name, shape } of vnode.parameters) {
    weights.add(name);
    state.inputs.set(name, graph.input(name, "float32", shape));
  }
  if (vnode.body.some(usesPositions))
    state.inputs.set(positionsInput, graph.input(positionsInput, "int32", [anyRows, 1]));
  if (vnode.body.some(usesAdapters)) state.inputs.set(adaptersInput, graph.input(adaptersInput, "int32", [anyRows, 1]));
  for (const node of vnode.body) buildNode(state, node, head);
  if (isHead) graph.output(logitsOf(state, head), logitsOutput);
  const hidden = isHead ? hiddenOf(state, vnode, head) : undefined;
  if (hidden !== undefined) graph.output(hidden, hiddenOutput);
  for (const port of portsOf(plan, vnode, head)) graph.output(portValue(state, port), port.name);
  return cutAtAttention(lowerModel(graph.build(), rowComposites), state.attentions, weights);
}

/** Ports that somebody takes; the head's logits have a name of their own. */
function portsOf(plan: Plan, vnode: VNodePlan, head: GenerationHead): PortPlan[] {
  if (vnode.id !== head.vnode) return [...vnode.outputs];
  const leaves = vnode.outputs.filter((port) => !isJudgedOnly(plan, vnode, port));
  return [...leaves, ...vnode.results.filter((port) => nameOf(port) !== head.value)];
}

function nameOf(port: PortPlan): string {
  return port.name.split(">", 1)[0]!;
}

/** A port of the head that leads to the cost alone; nobody waits for it. */
function isJudgedOnly(plan: Plan, vnode: VNodePlan, port: PortPlan): boolean {
  const edge = plan.edges.find((each) => each.from === vnode.id && each.fromPort === port.name);
  return plan.vnodes.some((other) => other.id === edge?.to && other.role === "loss");
}

function buildNode(state: UnitState, node: BodyNode, head: GenerationHead): void {
  const site = new UnitSite(state, node);
  if (node.nodeType.type === "tied_lm_head_ce") {
    const { weight, transposed } = linearOperands(site);
    if (head.value === `${node.id}.0`)
      state.values.set(head.value, applyLinear(state.graph, site.input(0), weight, undefined, transposed));
    return;
  }
  if (node.nodeType.cost) return;
  for (const [slot, value] of node.nodeType.build(site).entries()) state.values.set(`${node.id}.${slot}`, value);
}

function portValue(state: UnitState, port: PortPlan): Value {
  const value = state.values.get(nameOf(port));
  assert(value !== undefined, `generation computes ${port.name}`);
  return value;
}

/** What the last linear layer before the logits takes: behind the last norm, as other libraries call it the last hidden state. */
function hiddenOf(state: UnitState, { body }: VNodePlan, head: GenerationHead): Value | undefined {
  const byId = new Map(body.map((node) => [node.id, node]));
  let node = byId.get(head.value.slice(0, head.value.lastIndexOf(".")));
  while (node !== undefined && isAfterLogits(node)) {
    const [before] = node.inputs;
    node = before?.kind === "node" ? byId.get(before.node) : undefined;
  }
  if (node?.nodeType.type !== "linear" && node?.nodeType.type !== "tied_lm_head_ce") return undefined;
  const value = new UnitSite(state, node).input(0);
  return state.graph.op("Reshape", [value], { shape: [anyRows, value.shape.at(-1)!] });
}

/** Families that scale or cap their logits do it behind the layer that makes them. */
function isAfterLogits({ nodeType }: BodyNode): boolean {
  return nodeType.type === "scale" || nodeType.type === "soft_cap";
}

function logitsOf({ graph, values }: UnitState, head: GenerationHead): Value {
  const logits = values.get(head.value);
  assert(logits !== undefined, `the head computes ${head.value}`);
  return graph.op("Reshape", [logits], { shape: [anyRows, logits.shape.at(-1)!] });
}
