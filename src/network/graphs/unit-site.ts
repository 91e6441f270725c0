// How nodes are built for generating text: a row for each new token, [rows, 1, ..]. Attention is left out of the graph: its
// queries, keys and values leave it, and what attention makes of them comes in again (engine/stage turns them by their
// positions and computes it).

import { fail } from "../../core/errors.ts";
import type { Shape } from "../../core/tensor.ts";
import type { Value } from "../../graph/operators/operator.ts";
import { anyRows } from "../../graph/rows.ts";
import { adaptersInput, positionsInput, type RowPart, type UnitAttention } from "../../graph/unit.ts";
import type { BodyNode } from "../body.ts";
import type { AttentionLayout, BuildSite } from "../catalogue/build-site.ts";
import { type BuildState, NodeSite, splitHeads } from "./node-site.ts";
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

  adapterRows(): Value {
    return this.declared(adaptersInput);
  }

  /** [rows, 1, width]: an embedder's rows. */
  rotate(value: Value, rope: Rope): Value {
    const { graph } = this;
    const half = value.shape.at(-1)! / 2;
    const tables = ropeTables(this.#state.context, 2 * half, rope);
    const rows = (table: Value) => graph.op("Gather", [table, this.declared(positionsInput)], { axis: 0 });
    const [cos, sin] = [rows(graph.constant(tables.cos)), rows(graph.constant(tables.sin))];
    const axis = value.shape.length - 1;
    const [a, b] = graph.ops("Split", [value], { axis, split: [half, half] }, 2) as [Value, Value];
    const product = (x: Value, y: Value) => graph.op("Mul", [x, y]);
    const first = graph.op("Sub", [product(a, cos), product(b, sin)]);
    const second = graph.op("Add", [product(b, cos), product(a, sin)]);
    return graph.op("Concat", [first, second], { axis });
  }

  attend(qkv: Value, layout: AttentionLayout): Value {
    const { heads, kvHeads, headDim, rope, alibi, cap, window } = layout;
    const { context } = this.#state;
    this.#state.attentions.push({
      node: this.id,
      ...this.#leaving(qkv, layout),
      result: `attended:${this.id}`,
      ...{ heads, kvHeads, headDim, scale: layout.scale ?? 1 / Math.sqrt(headDim) },
      ...(cap !== undefined && { cap }),
      ...(window !== undefined && { window }),
      ...(alibi !== undefined && { bias: alibiTable(heads, context, alibi) }),
      ...(rope !== undefined && { rope: ropeTables(context, rope.dims ?? headDim, rope) }),
    });
    return this.graph.input(`attended:${this.id}`, "float32", [anyRows, 1, heads * headDim]);
  }

  /** What leaves for attention: one value, or three where queries and keys are normed first. */
  #leaving(qkv: Value, layout: AttentionLayout): Pick<UnitAttention, "query" | "key" | "value"> {
    const { heads, kvHeads, headDim, norm } = layout;
    const widths = [heads, kvHeads, kvHeads].map((count) => count * headDim) as [number, number, number];
    const [query, key, value] = widths;
    if (norm === undefined) {
      const [of, stride] = [`qkv:${this.id}`, query + key + value];
      this.graph.output(qkv, of);
      const part = (offset: number) => ({ of, offset, stride });
      return { query: part(0), key: part(query), value: part(query + key) };
    }
    const parts = splitHeads(this.graph, qkv, layout).map((each, i) => {
      const of = `${["query", "key", "value"][i]}:${this.id}`;
      this.graph.output(each, of);
      return { of, offset: 0, stride: widths[i] as number };
    }) as [RowPart, RowPart, RowPart];
    return { query: parts[0], key: parts[1], value: parts[2] };
  }

  linearCrossEntropy = this.#noLoss;
  crossEntropy = this.#noLoss;
  crossEntropyOfProbabilities = this.#noLoss;
  meanSquare = this.#noLoss;

  #noLoss(): Value {
    return fail("internal", `node "${this.id}" asks for a loss while generating`);
  }
}
