// How nodes are built for generation: keys and values of earlier positions come in as caches, positions and masks
// as inputs.

import { fail } from "../../core/errors.ts";
import type { Shape } from "../../core/tensor.ts";
import { onnxTypeOf } from "../../graph/operators/cast.ts";
import type { Value } from "../../graph/operators/operator.ts";
import type { BodyNode } from "../body.ts";
import type { AttentionLayout, BuildSite } from "../catalogue/build-site.ts";
import { type BuildState, joinHeads, NodeSite, rotatePart, splitHeads } from "./node-site.ts";
import { alibiTable, type Rope, ropeTables } from "./positions.ts";

/** Far below any score, yet finite. */
export const maskedScore = -1e9;

export interface GenerationOptions {
  /** Requests computed together. */
  readonly requests: number;
  /** New positions of each request: the prompt's length for prefill, then 1. */
  readonly tokens: number;
  /** Positions in the caches, the same for all requests; shorter ones are padded in front and masked. */
  readonly cached: number;
}

export interface CachePlan {
  /** Of the attention node. */
  readonly node: string;
  readonly keyInput: string;
  readonly valueInput: string;
  readonly keyOutput: string;
  readonly valueOutput: string;
  /** [heads, positions, width]; the leading axis is the request. */
  readonly heads: number;
  readonly width: number;
}

export interface GenerationState extends BuildState {
  readonly options: GenerationOptions;
  readonly context: number;
  readonly inputs: Map<string, Value>;
  readonly values: Map<string, Value>;
  readonly caches: { cache: CachePlan; key: Value; value: Value }[];
}

export class GenerationSite extends NodeSite implements BuildSite {
  readonly #state: GenerationState;

  constructor(state: GenerationState, node: BodyNode) {
    super(state, node, state.options.requests);
    this.#state = state;
  }

  chance(): undefined {
    return undefined;
  }

  labels(): Value {
    return fail("internal", `node "${this.id}" asks for labels while generating`);
  }

  outputShape(slot: number): Shape {
    const { requests, tokens } = this.#state.options;
    return [requests, tokens, ...this.outputs[slot]!.shape.slice(1)];
  }

  positionRows(table: Value): Value {
    return this.graph.op("Gather", [table, this.declared("positions")], { axis: 0 });
  }

  /** [requests, tokens, width], or [requests, heads, tokens, width]. */
  rotate(value: Value, rope: Rope): Value {
    const { graph } = this;
    const { context, options } = this.#state;
    const width = value.shape.at(-1)!;
    const half = width / 2;
    const tables = ropeTables(context, width, rope);
    const shape = [options.requests, ...(value.shape.length === 4 ? [1] : []), options.tokens, half];
    const rows = (table: Value) =>
      graph.op("Reshape", [graph.op("Gather", [table, this.declared("positions")], { axis: 0 })], { shape });
    const [cos, sin] = [rows(graph.constant(tables.cos)), rows(graph.constant(tables.sin))];
    const axis = value.shape.length - 1;
    const [a, b] = graph.ops("Split", [value], { axis, split: [half, half] }, 2) as [Value, Value];
    const product = (x: Value, y: Value) => graph.op("Mul", [x, y]);
    const first = graph.op("Sub", [product(a, cos), product(b, sin)]);
    const second = graph.op("Add", [product(b, cos), product(a, sin)]);
    return graph.op("Concat", [first, second], { axis });
  }

  attend(qkv: Value, layout: AttentionLayout): Value {
    const { graph } = this;
    const { requests, tokens, cached } = this.#state.options;
    const { heads, kvHeads, headDim } = layout;
    const [q, k, v] = splitHeads(graph, qkv, layout);
    const { rope } = layout;
    const turn = (value: Value) =>
      rope === undefined ? value : rotatePart(graph, value, rope.dims, (part) => this.rotate(part, rope));
    const key = turn(k);
    const cache = cachePlan(this.id, kvHeads, headDim);
    this.#state.caches.push({ cache, key, value: v });
    const whole = (name: string, fresh: Value) => {
      if (cached === 0) return fresh;
      const past = graph.input(name, "float32", [requests, kvHeads, cached, headDim]);
      return graph.op("Concat", [past, fresh], { axis: 2 });
    };
    // Groups of query heads share their keys: an axis of its own lets the product broadcast.
    const spread = (value: Value) =>
      graph.op("Reshape", [value], { shape: [requests, kvHeads, 1, cached + tokens, headDim] });
    const keys = spread(whole(cache.keyInput, key));
    const values = spread(whole(cache.valueInput, v));
    const queries = graph.op("Reshape", [turn(q)], { shape: [requests, kvHeads, heads / kvHeads, tokens, headDim] });
    const scaled = graph.op("Mul", [queries, graph.scalar(layout.scale ?? 1 / Math.sqrt(headDim))]);
    const scores = graph.op("MatMul", [scaled, graph.op("Transpose", [keys], { perm: [0, 1, 2, 4, 3] })]);
    const biased = this.#biased(this.#capped(scores, layout.cap), layout);
    const mask = graph.op("Reshape", [this.#mask(layout.window)], {
      shape: [requests, 1, 1, tokens, cached + tokens],
    });
    const weights = graph.op("Softmax", [graph.op("Add", [biased, mask])], { axis: -1 });
    const mixed = graph.op("MatMul", [weights, values]);
    return joinHeads(graph, graph.op("Reshape", [mixed], { shape: [requests, heads, tokens, headDim] }));
  }

  #capped(scores: Value, cap: number | undefined): Value {
    if (cap === undefined) return scores;
    const bend = this.graph.op("Tanh", [this.graph.op("Mul", [scores, this.graph.scalar(1 / cap)])]);
    return this.graph.op("Mul", [bend, this.graph.scalar(cap)]);
  }

  /** Scores [requests, kvHeads, groups, tokens, span] with what ALiBi adds to each key. */
  #biased(scores: Value, { alibi, heads, kvHeads }: AttentionLayout): Value {
    if (alibi === undefined) return scores;
    const { graph } = this;
    const { requests, tokens, cached } = this.#state.options;
    const table = graph.op("Transpose", [graph.constant(alibiTable(heads, this.#state.context, alibi))], {
      perm: [1, 0],
    });
    const rows = graph.op("Gather", [table, this.declared("key_positions")], { axis: 0 });
    const bias = graph.op("Reshape", [graph.op("Transpose", [rows], { perm: [0, 2, 1] })], {
      shape: [requests, kvHeads, heads / kvHeads, 1, cached + tokens],
    });
    return graph.op("Add", [scores, bias]);
  }

  /** The mask, with keys hidden that lie `window` positions back or more. */
  #mask(window: number | undefined): Value {
    const mask = this.declared("mask");
    if (window === undefined) return mask;
    const { graph } = this;
    const { requests, tokens, cached } = this.#state.options;
    const floats = (name: string, shape: Shape) =>
      graph.op("Cast", [graph.op("Reshape", [this.declared(name)], { shape })], { to: onnxTypeOf("float32") });
    const back = graph.op("Sub", [
      floats("positions", [requests, tokens, 1]),
      floats("key_positions", [requests, 1, cached + tokens]),
    ]);
    const hidden = graph.op("Greater", [back, graph.scalar(window - 0.5)]);
    return graph.op("Where", [hidden, graph.scalar(maskedScore), mask]);
  }

  linearCrossEntropy = this.#noLoss;
  crossEntropy = this.#noLoss;
  crossEntropyOfProbabilities = this.#noLoss;
  meanSquare = this.#noLoss;

  #noLoss(): Value {
    return fail("internal", `node "${this.id}" asks for a loss while generating`);
  }
}

function cachePlan(node: string, heads: number, width: number): CachePlan {
  return {
    node,
    keyInput: `cache:${node}.key`,
    valueInput: `cache:${node}.value`,
    keyOutput: `new:${node}.key`,
    valueOutput: `new:${node}.value`,
    heads,
    width,
  };
}
