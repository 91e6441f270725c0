// Where a node of a body is built: its inputs, weights and ties as values of the graph. Training and generation add
// what differs between them.

import { assert } from "../../core/assert.ts";
import type { GraphBuilder } from "../../graph/builder.ts";
import type { Value } from "../../graph/operators/operator.ts";
import type { BodyNode } from "../body.ts";
import type { AttentionLayout } from "../catalogue/build-site.ts";
import type { Signature } from "../catalogue/node-type.ts";

export interface BuildState {
  readonly graph: GraphBuilder;
  /** Of the graph, by name. */
  readonly inputs: ReadonlyMap<string, Value>;
  /** By `node.slot`. */
  readonly values: ReadonlyMap<string, Value>;
}

export class NodeSite {
  readonly id: string;
  readonly graph: GraphBuilder;
  readonly config: BodyNode["config"];
  readonly inputs: readonly Signature[];
  readonly outputs: readonly Signature[];
  readonly batch: number;
  readonly tie?: BodyNode["tie"];
  readonly #state: BuildState;
  readonly #node: BodyNode;

  constructor(state: BuildState, node: BodyNode, batch: number) {
    this.#state = state;
    this.#node = node;
    this.id = node.id;
    this.graph = state.graph;
    this.config = node.config;
    this.inputs = node.inputSignatures;
    this.outputs = node.description.outputs;
    this.batch = batch;
    if (node.tie !== undefined) this.tie = node.tie;
  }

  input(slot: number): Value {
    const input = this.#node.inputs[slot]!;
    if (input.kind === "port") return this.declared(input.port);
    const value = this.#state.values.get(`${input.node}.${input.slot}`);
    assert(value !== undefined, `input ${slot} of ${this.id} is built before it`);
    return value;
  }

  parameter(name: string): Value {
    return this.declared(`${this.id}.${name}`);
  }

  tied(): Value {
    assert(this.#node.tied !== undefined, `${this.id} is tied`);
    return this.declared(this.#node.tied.name);
  }

  protected declared(name: string): Value {
    const value = this.#state.inputs.get(name);
    assert(value !== undefined, `${name} is an input of the graph`);
    return value;
  }
}

/** [batch, seq, (heads + 2 kvHeads) width] to q, k, v as [batch, heads, seq, width]; q and k normed where asked. */
export function splitHeads(graph: GraphBuilder, qkv: Value, layout: AttentionLayout): [Value, Value, Value] {
  const { heads, kvHeads, headDim, norm } = layout;
  const [batch, sequence] = qkv.shape as [number, number];
  const split = [heads, kvHeads, kvHeads].map((count) => count * headDim);
  const parts = graph.ops("Split", [qkv], { axis: 2, split }, 3);
  return parts.map((part, which) => {
    const normed = (value: Value, flat: boolean) =>
      norm === undefined || norm.flat !== flat || which > 1 ? value : which === 0 ? norm.query(value) : norm.key(value);
    const whole = normed(part, true);
    const rows = graph.op("Reshape", [whole], { shape: [batch, sequence, part.shape[2]! / headDim, headDim] });
    return normed(graph.op("Transpose", [rows], { perm: [0, 2, 1, 3] }), false);
  }) as [Value, Value, Value];
}

/** Rotates the first `dims` elements of the last axis and leaves the others. */
export function rotatePart(
  graph: GraphBuilder,
  value: Value,
  dims: number | undefined,
  rotate: (part: Value) => Value,
): Value {
  const axis = value.shape.length - 1;
  const width = value.shape[axis]!;
  if (dims === undefined || dims === width) return rotate(value);
  const [turning, resting] = graph.ops("Split", [value], { axis, split: [dims, width - dims] }, 2) as [Value, Value];
  return graph.op("Concat", [rotate(turning), resting], { axis });
}

/** [batch, heads, seq, width] to [batch, seq, heads width]. */
export function joinHeads(graph: GraphBuilder, value: Value): Value {
  const [batch, heads, sequence, width] = value.shape as [number, number, number, number];
  const turned = graph.op("Transpose", [value], { perm: [0, 2, 1, 3] });
  return graph.op("Reshape", [turned], { shape: [batch, sequence, heads * width] });
}
