// The forward pass of a VNode for generating text: a few new positions of several requests at a time, with the
// keys and values of the positions before them coming in as caches. Nothing here is differentiated.

import { assert } from "../../core/assert.ts";
import { fail } from "../../core/errors.ts";
import type { Shape } from "../../core/tensor.ts";
import { GraphBuilder } from "../../graph/builder.ts";
import { lowerModel } from "../../graph/lower.ts";
import type { GraphModel } from "../../graph/model.ts";
import type { Value } from "../../graph/operators/operator.ts";
import type { BodyNode } from "../body.ts";
import { applyLinear, linearOperands } from "../catalogue/linear.ts";
import type { Plan, PortPlan, VNodePlan } from "../plan.ts";
import { portType } from "./forward.ts";
import {
  type CachePlan,
  type GenerationOptions,
  GenerationSite,
  type GenerationState,
  maskedScore,
} from "./generation-site.ts";

export { type CachePlan, type GenerationOptions, maskedScore } from "./generation-site.ts";

/**
 * Graph inputs beside ports and parameters:
 * `positions` int32 [requests, tokens]: where each new token stands in its request;
 * `mask` float32 [requests, tokens, cached + tokens]: 0 where a new token may look, `maskedScore` where it may not;
 * `key_positions` int32 [requests, cached + tokens], where a window or ALiBi asks how far away keys are: where each
 * key stands in its request, 0 for padding;
 * caches [requests, heads, cached, width], absent when `cached` is 0;
 * `select` int32 [requests], at the head only: which of the requests * tokens rows to give logits for.
 * Outputs: activation ports [requests, tokens, ..], new keys and values [requests, heads, tokens, width] to append
 * to the caches, and at the head `logits` [requests, classes].
 */
export interface GenerationGraph {
  readonly graph: GraphModel;
  readonly caches: readonly CachePlan[];
  readonly positions: boolean;
  readonly keyPositions: boolean;
  readonly mask: boolean;
  readonly logits: boolean;
}

/** Requests that a served network answers at the same time; more would make each of them wait too long. */
export const requestsAtOnceMax = 16;

/** Node types that treat positions alike and apart; the others cannot generate. */
const rowWise = new Set(
  "linear layernorm rmsnorm relu gelu silu tanh sigmoid softmax swiglu geglu scale soft_cap route weigh dropout broadcast add embedder positions attention attention_head tokenizer detokenizer stack".split(
    " ",
  ),
);

export interface GenerationHead {
  readonly vnode: string;
  /** `node.slot` of the logits. */
  readonly value: string;
}

/** Where the logits are: the network's first output that is no loss, else what the cost judges. */
export function generationHead(plan: Plan): GenerationHead {
  const output = plan.outputs.find((each) => each.port !== "loss");
  if (output !== undefined) return { vnode: output.vnode, value: output.port.split(">", 1)[0]! };
  for (const vnode of plan.vnodes)
    for (const node of vnode.body) {
      if (node.nodeType.type === "tied_lm_head_ce") return { vnode: vnode.id, value: `${node.id}.0` };
      const [input] = node.inputs;
      if (node.nodeType.cost && input?.kind === "node")
        return { vnode: vnode.id, value: `${input.node}.${input.slot}` };
    }
  return fail("failed_precondition", `network ${plan.name} cannot generate: list its logits under "outputs"`);
}

/** Positions that the network was made for: prompts and answers together must fit. */
export function contextOf(plan: Plan): number {
  if (plan.inputs?.wire !== "int32" || plan.inputs.shape.length !== 1)
    return fail(
      "failed_precondition",
      `network ${plan.name} cannot generate: its input is not a sequence of token ids`,
    );
  return plan.inputs.shape[0]!;
}

export function buildGeneration(plan: Plan, vnode: VNodePlan, options: GenerationOptions): GenerationGraph {
  const context = contextOf(plan);
  const head = generationHead(plan);
  const isHead = head.vnode === vnode.id;
  const { requests, tokens, cached } = options;
  for (const node of vnode.body) checkGenerates(plan, node);

  const attends = vnode.body.some(isAttention);
  // Rows are picked before the head's work where its nodes look at each row alone.
  const early = isHead && tokens > 1 && !attends;
  const graph = new GraphBuilder(`${vnode.id}.generation`);
  const state: GenerationState = {
    graph,
    options: { ...options, tokens: early ? 1 : tokens },
    context,
    inputs: new Map(),
    values: new Map(),
    caches: [],
  };
  const declare = (name: string, type: "float32" | "int32", shape: Shape) =>
    state.inputs.set(name, graph.input(name, type, shape));
  for (const port of vnode.inputs) {
    if (port.source === "labels") continue;
    declare(port.name, portType(port), port.kind === "tie" ? port.shape : [requests, tokens, ...port.shape.slice(1)]);
  }
  for (const { name, shape } of vnode.parameters) declare(name, "float32", shape);
  const positions = vnode.body.some(usesPositions);
  if (positions) declare("positions", "int32", [requests, tokens]);
  const keyPositions = vnode.body.some(usesKeyPositions);
  if (keyPositions) declare("key_positions", "int32", [requests, cached + tokens]);
  if (attends) declare("mask", "float32", [requests, tokens, cached + tokens]);
  if (isHead && tokens > 1) declare("select", "int32", [requests]);
  if (early) selectInputs(state, vnode.inputs);

  for (const node of vnode.body) buildNode(state, node, head);
  if (isHead) graph.output(logitsOf(state, head, early), "logits");
  for (const port of vnode.outputs)
    if (!isHead || !isJudgedOnly(plan, vnode, port)) graph.output(portValue(state, port), port.name);
  for (const { cache, key, value } of state.caches) {
    graph.output(key, cache.keyOutput);
    graph.output(value, cache.valueOutput);
  }
  return {
    graph: lowerModel(graph.build()),
    caches: state.caches.map(({ cache }) => cache),
    positions,
    keyPositions,
    mask: attends,
    logits: isHead,
  };
}

/** A port of the head that leads to the cost alone; nobody waits for it. */
function isJudgedOnly(plan: Plan, vnode: VNodePlan, port: PortPlan): boolean {
  const edge = plan.edges.find((each) => each.from === vnode.id && each.fromPort === port.name);
  return plan.vnodes.some((other) => other.id === edge?.to && other.role === "loss");
}

function isAttention(node: BodyNode): boolean {
  return node.nodeType.type === "attention" || node.nodeType.type === "attention_head";
}

/** What a VNode keeps of one position of one request while it generates: keys and values of its attention nodes. */
export function cacheBytesPerPosition(vnode: VNodePlan): number {
  let values = 0;
  for (const node of vnode.body.filter(isAttention)) {
    const heads = node.config.optionalNumber("num_heads") ?? 1;
    const kvHeads = node.config.optionalNumber("num_kv_heads") ?? heads;
    const width = node.description.parameters.find(({ name }) => name === "qkv.weight")?.shape[1] ?? 0;
    values += (width * 2 * kvHeads) / (heads + 2 * kvHeads);
  }
  return values * 4;
}

function usesPositions(node: BodyNode): boolean {
  if (isAttention(node)) return node.config.text("position_encoding") === "rope" || node.config.has("window");
  if (node.nodeType.type === "positions") return true;
  return node.nodeType.type === "embedder" && node.config.text("position_encoding") !== "none";
}

function usesKeyPositions(node: BodyNode): boolean {
  return isAttention(node) && (node.config.text("position_encoding") === "alibi" || node.config.has("window"));
}

/** Whether answers can be made token by token; a network that cannot is still served for forward passes. */
export function canGenerate(plan: Plan): boolean {
  const isText = plan.inputs?.wire === "int32" && plan.inputs.shape.length === 1;
  return isText && plan.vnodes.every(({ body }) => body.every((node) => whyNot(node) === undefined));
}

function checkGenerates(plan: Plan, node: BodyNode): void {
  const why = whyNot(node);
  if (why !== undefined) fail("failed_precondition", `network ${plan.name} cannot generate: node "${node.id}" ${why}`);
}

function whyNot(node: BodyNode): string | undefined {
  if (node.nodeType.cost) return undefined;
  if (!rowWise.has(node.nodeType.type)) return `of type ${node.nodeType.type} mixes positions`;
  if (isAttention(node) && !node.config.flag("causal"))
    return "is not causal: it would need positions that do not exist yet";
  const axis = node.nodeType.type === "stack" ? node.config.number("axis") : -1;
  const alongPositions = axis === 0 || (axis === -node.inputSignatures[0]!.shape.length && axis !== -1);
  return alongPositions ? "stacks along the positions" : undefined;
}

function selectInputs({ inputs, graph, options }: GenerationState, ports: readonly PortPlan[]): void {
  for (const port of ports) {
    const value = inputs.get(port.name);
    if (value === undefined || port.kind === "tie") continue;
    inputs.set(port.name, selectRows(graph, value, inputs.get("select")!, options.requests));
  }
}

/** [requests, tokens, ..] to [requests, 1, ..], by rows of requests * tokens. */
function selectRows(graph: GraphBuilder, value: Value, select: Value, requests: number): Value {
  const rest = value.shape.slice(2);
  const rows = graph.op("Reshape", [value], { shape: [value.shape[0]! * value.shape[1]!, ...rest] });
  return graph.op("Reshape", [graph.op("Gather", [rows, select], { axis: 0 })], { shape: [requests, 1, ...rest] });
}

function buildNode(state: GenerationState, node: BodyNode, head: GenerationHead): void {
  const site = new GenerationSite(state, node);
  if (node.nodeType.type === "tied_lm_head_ce") {
    const { weight, transposed } = linearOperands(site);
    if (head.value === `${node.id}.0`)
      state.values.set(head.value, applyLinear(state.graph, site.input(0), weight, undefined, transposed));
    return;
  }
  if (node.nodeType.cost) return;
  for (const [slot, value] of node.nodeType.build(site).entries()) state.values.set(`${node.id}.${slot}`, value);
}

function portValue(state: GenerationState, port: PortPlan): Value {
  const value = state.values.get(port.name.split(">", 1)[0]!);
  assert(value !== undefined, `generation computes ${port.name}`);
  return value;
}

function logitsOf({ graph, values, inputs, options }: GenerationState, head: GenerationHead, early: boolean): Value {
  const logits = values.get(head.value);
  assert(logits !== undefined, `the head computes ${head.value}`);
  const select = inputs.get("select");
  const rows = select === undefined || early ? logits : selectRows(graph, logits, select, options.requests);
  return graph.op("Reshape", [rows], { shape: [options.requests, rows.shape.at(-1)!] });
}

/** Masks and positions of a call where every request has `lengths[i]` cached positions and all tokens are new. */
export function generationFeeds(
  options: GenerationOptions,
  lengths: readonly number[],
): { positions: Int32Array; keyPositions: Int32Array; mask: Float32Array } {
  const { requests, tokens, cached } = options;
  assert(lengths.length === requests && lengths.every((length) => length <= cached), "each request's cache fits");
  const positions = new Int32Array(requests * tokens);
  const mask = new Float32Array(requests * tokens * (cached + tokens)).fill(maskedScore);
  const keyPositions = Int32Array.from({ length: requests * (cached + tokens) }, (_, i) =>
    Math.max(0, (i % (cached + tokens)) - cached + lengths[Math.floor(i / (cached + tokens))]!),
  );
  for (const [request, length] of lengths.entries())
    for (let token = 0; token < tokens; token++) {
      const row = request * tokens + token;
      positions[row] = length + token;
      // Caches are padded in front: the last `length` of their positions hold values.
      mask.fill(0, row * (cached + tokens) + cached - length, row * (cached + tokens) + cached + token + 1);
    }
  return { positions, keyPositions, mask };
}
