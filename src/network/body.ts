// What is inside an operational VNode: the definition's nodes, connected to each other and to its ports.

import { attention } from "./catalogue/attention.ts";
import type { Config } from "./catalogue/config.ts";
import type { Description, NodeType, Signature, Tie } from "./catalogue/node-type.ts";

export type BodyInput =
  | { readonly kind: "node"; readonly node: string; readonly slot: number }
  | { readonly kind: "port"; readonly port: string };

export interface BodyNode {
  readonly id: string;
  readonly nodeType: NodeType;
  readonly config: Config;
  readonly inputs: readonly BodyInput[];
  readonly inputSignatures: readonly Signature[];
  readonly description: Description;
  readonly tie?: Tie;
  /** Where a tied matrix comes from: a port, or a parameter of this very VNode. */
  readonly tied?: { readonly kind: "port" | "parameter"; readonly name: string };
  /** Nodes of the definition that this one stands for, if not itself alone. */
  readonly standsFor?: readonly string[];
}

/**
 * Heads written one by one, side by side over one value and stacked again, become one attention node: one wide
 * product instead of many narrow ones. The merged node has the stack's id.
 */
export function mergeHeads(body: readonly BodyNode[], exported: ReadonlySet<string>): BodyNode[] {
  const byId = new Map(body.map((node) => [node.id, node]));
  const uses = new Map<string, number>();
  for (const node of body)
    for (const input of node.inputs) if (input.kind === "node") uses.set(input.node, (uses.get(input.node) ?? 0) + 1);
  const replaced = new Map<string, BodyNode>();
  const dropped = new Set<string>();
  for (const stack of body) {
    const heads = stackedHeads(stack, byId);
    if (heads === undefined) continue;
    if (heads.some((head) => uses.get(head.id) !== 1 || exported.has(head.id))) continue;
    replaced.set(stack.id, merged(stack, heads));
    for (const head of heads) dropped.add(head.id);
  }
  return body.filter((node) => !dropped.has(node.id)).map((node) => replaced.get(node.id) ?? node);
}

/** The heads behind a stack along the last axis, if they differ in nothing but their weights. */
function stackedHeads(stack: BodyNode, byId: ReadonlyMap<string, BodyNode>): BodyNode[] | undefined {
  if (stack.nodeType.type !== "stack" || stack.inputs.length < 2) return undefined;
  const axis = stack.config.number("axis");
  if (axis !== 1 && axis !== -1) return undefined;
  const heads: BodyNode[] = [];
  for (const input of stack.inputs) {
    const head = input.kind === "node" ? byId.get(input.node) : undefined;
    if (head?.nodeType.type !== "attention_head") return undefined;
    heads.push(head);
  }
  const alike = (head: BodyNode) => head.config.canonical() === heads[0]!.config.canonical();
  const source = sourceOf(heads[0]!.inputs[0]!, byId);
  const oneSource = heads.every((head) => sourceOf(head.inputs[0]!, byId) === source);
  const distinct = new Set(heads.map((head) => head.id)).size === heads.length;
  return oneSource && distinct && heads.every(alike) ? heads : undefined;
}

/** A name for the value itself, seen through broadcasts. */
function sourceOf(input: BodyInput, byId: ReadonlyMap<string, BodyNode>): string {
  let at = input;
  while (at.kind === "node" && byId.get(at.node)?.nodeType.type === "broadcast") at = byId.get(at.node)!.inputs[0]!;
  return at.kind === "node" ? `node ${at.node} ${at.slot}` : `port ${at.port}`;
}

function merged(stack: BodyNode, heads: readonly BodyNode[]): BodyNode {
  const head = heads[0]!;
  const config = head.config.with({
    num_heads: heads.length,
    num_kv_heads: heads.length,
    dim: head.inputSignatures[0]!.shape[1]!,
    output_projection: false,
  });
  const site = { id: stack.id, config, inputs: head.inputSignatures };
  return {
    id: stack.id,
    nodeType: attention,
    config,
    inputs: head.inputs,
    inputSignatures: head.inputSignatures,
    description: attention.describe(site),
    standsFor: [...heads.map((each) => each.id), stack.id],
  };
}
