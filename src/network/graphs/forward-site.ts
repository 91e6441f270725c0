// How nodes are built for training and evaluation: whole sequences, chances while training, costs with their labels.

import { fail } from "../../core/errors.ts";
import type { Shape } from "../../core/tensor.ts";
import type { Value } from "../../graph/operators/operator.ts";
import type { BodyNode } from "../body.ts";
import type { AttentionLayout, BuildSite } from "../catalogue/build-site.ts";
import {
  type Counts,
  countHits,
  crossEntropyOfProbabilities,
  evaluateHead,
  headOperands,
  meanSquare,
} from "./losses.ts";
import { type BuildState, joinHeads, NodeSite, rotatePart, splitHeads } from "./node-site.ts";
import { alibiTable, type Rope, ropeTables } from "./positions.ts";

export interface ForwardState extends BuildState {
  readonly batch: number;
  readonly training: boolean;
  readonly values: Map<string, Value>;
  readonly counts: Counts[];
}

export class ForwardSite extends NodeSite implements BuildSite {
  readonly #state: ForwardState;

  constructor(state: ForwardState, node: BodyNode) {
    super(state, node, state.batch);
    this.#state = state;
  }

  chance(name: string): Value | undefined {
    return this.#state.inputs.get(`${this.id}.${name}`);
  }

  labels(): Value {
    return this.declared("labels");
  }

  outputShape(slot: number): Shape {
    return [this.batch, ...this.outputs[slot]!.shape];
  }

  positionRows(table: Value): Value {
    return table;
  }

  adapterRows(): Value {
    return fail(
      "failed_precondition",
      `node "${this.id}" has several adapters side by side: such a model is served, not trained; train one adapter by itself`,
    );
  }

  rotate(value: Value, rope: Rope): Value {
    const [positions, width] = value.shape.slice(-2) as [number, number];
    const tables = ropeTables(positions, width, rope);
    return this.graph.op("Rope", [value, this.graph.constant(tables.cos), this.graph.constant(tables.sin)]);
  }

  attend(qkv: Value, layout: AttentionLayout): Value {
    const { graph } = this;
    const [q, k, v] = splitHeads(graph, qkv, layout);
    const { rope, alibi, scale, cap, window } = layout;
    const turn = (value: Value) =>
      rope === undefined ? value : rotatePart(graph, value, rope.dims, (part) => this.rotate(part, rope));
    const bias = alibi === undefined ? [] : [graph.constant(alibiTable(layout.heads, k.shape[2]!, alibi))];
    const mixed = graph.op("Attention", [turn(q), turn(k), v, ...bias], {
      causal: layout.causal ? 1 : 0,
      ...(scale !== undefined && { scale }),
      ...(cap !== undefined && { cap }),
      ...(window !== undefined && { window }),
    });
    return joinHeads(graph, mixed);
  }

  linearCrossEntropy(x: Value, weight: Value, bias: Value | undefined, transposed: boolean): Value {
    const head = headOperands(this.graph, x, weight, bias, transposed);
    if (!this.#state.training) {
      const { loss, counts } = evaluateHead(this.graph, head.x, head.weight, this.labels());
      this.#state.counts.push(counts);
      return loss;
    }
    return this.graph.op("LinearCrossEntropy", [head.x, head.weight, this.labels()]);
  }

  crossEntropy(logits: Value): Value {
    this.#count(logits);
    return this.graph.op("SoftmaxCrossEntropy", [logits, this.labels()]);
  }

  crossEntropyOfProbabilities(probabilities: Value): Value {
    this.#count(probabilities);
    return crossEntropyOfProbabilities(this.graph, probabilities, this.labels());
  }

  meanSquare(prediction: Value, target: Value): Value {
    return meanSquare(this.graph, prediction, target);
  }

  #count(scores: Value): void {
    if (!this.#state.training) this.#state.counts.push(countHits(this.graph, scores, this.labels()));
  }
}
