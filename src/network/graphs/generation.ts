// Which networks generate text, from what to what: their head, their context, what attention keeps of a position. unit.ts
// builds what they run.

import { fail } from "../../core/errors.ts";
import type { BodyNode } from "../body.ts";
import type { Plan, PlanEdge, VNodePlan } from "../plan.ts";

/** Requests that a served network answers at the same time; more would make each of them wait too long. */
export const requestsAtOnceMax = 32;

/** Positions of all requests together that VNodes keep: so many of them as long as the context. */
const wholeRequestsMax = 16;

export function cachePositionsMax(plan: Plan): number {
  return wholeRequestsMax * (plan.inputs?.shape[0] ?? 0);
}

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

/** How values get to the head: VNodes and activations on the way. The others (costs) do nothing in a served model. */
export interface GenerationWay {
  readonly head: string;
  readonly needed: ReadonlySet<string>;
  readonly onward: readonly PlanEdge[];
}

export function generationWay(plan: Plan): GenerationWay {
  const head = generationHead(plan).vnode;
  const needed = new Set([head]);
  for (const id of plan.order.toReversed())
    if (plan.edges.some((edge) => edge.from === id && edge.kind === "activation" && needed.has(edge.to)))
      needed.add(id);
  const onward = plan.edges.filter(({ kind, from, to }) => kind === "activation" && needed.has(from) && needed.has(to));
  return { head, needed, onward };
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

function isAttention(node: BodyNode): boolean {
  return node.nodeType.type === "attention" || node.nodeType.type === "attention_head";
}

/**
 * What a VNode keeps of one position of one request while it generates: keys and values of its attention nodes, values in
 * whole vectors of four.
 */
export function cacheBytesPerPosition(vnode: VNodePlan): number {
  let values = 0;
  for (const node of vnode.body.filter(isAttention)) {
    const heads = node.config.optionalNumber("num_heads") ?? 1;
    const kvHeads = node.config.optionalNumber("num_kv_heads") ?? heads;
    const width = node.description.parameters.find(({ name }) => name === "qkv.weight")?.shape[1] ?? 0;
    const headDim = width / (heads + 2 * kvHeads);
    values += kvHeads * (headDim + 4 * Math.ceil(headDim / 4));
  }
  return values * 4;
}

/** Whether a node's graph asks where its rows stand. Attention knows by itself. */
export function usesPositions(node: BodyNode): boolean {
  if (node.nodeType.type === "positions") return true;
  return node.nodeType.type === "embedder" && node.config.text("position_encoding") !== "none";
}

/** Whether its rows name which of several adapters they use. */
export function usesAdapters(node: BodyNode): boolean {
  return node.config.has("adapter_count");
}

/** How many adapters an answer may choose from. */
export function adapterCountOf(plan: Plan): number {
  const counts = plan.vnodes.flatMap(({ body }) =>
    body.map((node) => node.config.optionalNumber("adapter_count") ?? 0),
  );
  return counts.reduce((most, count) => Math.max(most, count), 0);
}

/** Whether answers can be made token by token; a network that cannot is still served for forward passes. */
export function canGenerate(plan: Plan): boolean {
  const isText = plan.inputs?.wire === "int32" && plan.inputs.shape.length === 1;
  return isText && plan.vnodes.every(({ body }) => body.every((node) => whyNot(node) === undefined));
}

export function checkGenerates(plan: Plan, node: BodyNode): void {
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
