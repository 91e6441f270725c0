// How nodes are built for generating text: a row for each new token, [rows, 1, ..]. Attention is left out of the graph: its
// queries, keys and values leave it, and what attention makes of them comes in again (engine/stage computes it).

import { fail } from "../../core/errors.ts";
import type { Shape } from "../../core/tensor.ts";
import type { Value } from "../../graph/operators/operator.ts";
import { anyRows } from "../../graph/rows.ts";
import { positionsInput, type UnitAttention } from "../../graph/unit.ts";
import type { BodyNode } from "../body.ts";
import type { AttentionLayout, BuildSite } from "../catalogue/build-site.ts";
import { type BuildState, NodeSite, rotatePart, splitHeads } from "./node-site.ts";
import { alibiTable, type Rope, ropeTables } from "./positions.ts";

export interface UnitState extends BuildState {
  readonly context: number;
  readonly inputs: Map<string, Value>;
  readonly values: Map<string, Value>;
  readonly attentions: UnitAttention[];
}

export class UnitSite extends NodeSite implements BuildSite {
  readonly #state: UnitState;

  constructor(state: UnitState, node: BodyNode) {
    super(state, node, anyRows);
    this.#state = state;
  }

  chance(): undefined {
    return undefined;
  }

  labels(): Value {
    return fail("internal", `node "${this.id}" asks for labels while generating`);
  }

  outputShape(slot: number): Shape {
    return [anyRows, 1, ...this.outputs[slot]!.shape.slice(1)];
  }

  positionRows(table: Value): Value {
    return this.graph.op("Gather", [table, this.declared(positionsInput)], { axis: 0 });
  }

  /** [rows, 1, width], or [rows, heads, 1, width]. */
  rotate(value: Value, rope: Rope): Value {
    const { graph } = this;
    const width = value.shape.at(-1)!;
    const half = width / 2;
    const tables = ropeTables(this.#state.context, width, rope);
    const shape = [anyRows, ...value.shape.slice(1, -1).map(() => 1), half];
    const rows = (table: Value) =>
      graph.op("Reshape", [graph.op("Gather", [table, this.declared(positionsInput)], { axis: 0 })], { shape });
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
    const { heads, kvHeads, headDim, rope, alibi, cap, window } = layout;
    const [q, k, v] = splitHeads(graph, qkv, layout);
    const turn = (value: Value) =>
      rope === undefined ? value : rotatePart(graph, value, rope.dims, (part) => this.rotate(part, rope));
    const leaving = { query: turn(q), key: turn(k), value: v };
    for (const [role, value] of Object.entries(leaving)) graph.output(value, `${role}:${this.id}`);
    this.#state.attentions.push({
      node: this.id,
      ...{ query: `query:${this.id}`, key: `key:${this.id}`, value: `value:${this.id}`, result: `attended:${this.id}` },
      ...{ heads, kvHeads, headDim, scale: layout.scale ?? 1 / Math.sqrt(headDim) },
      ...(cap !== undefined && { cap }),
      ...(window !== undefined && { window }),
      ...(alibi !== undefined && { bias: alibiTable(heads, this.#state.context, alibi) }),
    });
    return graph.input(`attended:${this.id}`, "float32", [anyRows, 1, heads * headDim]);
  }

  linearCrossEntropy = this.#noLoss;
  crossEntropy = this.#noLoss;
  crossEntropyOfProbabilities = this.#noLoss;
  meanSquare = this.#noLoss;

  #noLoss(): Value {
    return fail("internal", `node "${this.id}" asks for a loss while generating`);
  }
}
