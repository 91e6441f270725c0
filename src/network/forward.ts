// The forward pass of a VNode for training and evaluation: its body's nodes, built one after the other.

import { assert } from "../core/assert.ts";
import { elementCount, type Shape } from "../core/tensor.ts";
import type { GraphBuilder } from "../graph/builder.ts";
import type { Value } from "../graph/operators/operator.ts";
import type { BodyInput, BodyNode } from "./body.ts";
import type { AttentionLayout, BuildSite } from "./catalogue/build-site.ts";
import { linearOperands } from "./catalogue/linear.ts";
import type { Signature } from "./catalogue/node-type.ts";
import {
  type Counts,
  countHits,
  crossEntropyOfProbabilities,
  evaluateHead,
  headOperands,
  meanSquare,
} from "./losses.ts";
import type { PortPlan, VNodePlan } from "./plan.ts";
import { type Rope, ropeTables } from "./positions.ts";

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

  const state: ForwardState = { graph, options, inputs, values: new Map(), counts: [] };
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

interface ForwardState {
  readonly graph: GraphBuilder;
  readonly options: ForwardOptions;
  readonly inputs: ReadonlyMap<string, Value>;
  /** By `node.slot`. */
  readonly values: Map<string, Value>;
  readonly counts: Counts[];
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

class ForwardSite implements BuildSite {
  readonly id: string;
  readonly graph: GraphBuilder;
  readonly config: BodyNode["config"];
  readonly inputs: readonly Signature[];
  readonly outputs: readonly Signature[];
  readonly batch: number;
  readonly tie?: BodyNode["tie"];
  readonly #state: ForwardState;
  readonly #node: BodyNode;

  constructor(state: ForwardState, node: BodyNode) {
    this.#state = state;
    this.#node = node;
    this.id = node.id;
    this.graph = state.graph;
    this.config = node.config;
    this.inputs = node.inputSignatures;
    this.outputs = node.description.outputs;
    this.batch = state.options.batch;
    if (node.tie !== undefined) this.tie = node.tie;
  }

  input(slot: number): Value {
    const input = this.#node.inputs[slot]!;
    const value =
      input.kind === "port"
        ? this.#state.inputs.get(input.port)
        : this.#state.values.get(`${input.node}.${input.slot}`);
    assert(value !== undefined, `input ${slot} of ${this.id} is built before it`);
    return value;
  }

  #declared(name: string): Value {
    const value = this.#state.inputs.get(name);
    assert(value !== undefined, `${name} is an input of the graph`);
    return value;
  }

  parameter(name: string): Value {
    return this.#declared(`${this.id}.${name}`);
  }

  tied(): Value {
    assert(this.#node.tied !== undefined, `${this.id} is tied`);
    return this.#declared(this.#node.tied.name);
  }

  chance(name: string): Value | undefined {
    return this.#state.inputs.get(`${this.id}.${name}`);
  }

  labels(): Value {
    return this.#declared("labels");
  }

  outputShape(slot: number): Shape {
    return [this.batch, ...this.outputs[slot]!.shape];
  }

  positionRows(table: Value): Value {
    return table;
  }

  rotate(value: Value, rope: Rope): Value {
    const [positions, width] = value.shape.slice(-2) as [number, number];
    const tables = ropeTables(positions, width, rope);
    return this.graph.op("Rope", [value, this.graph.constant(tables.cos), this.graph.constant(tables.sin)]);
  }

  attend(qkv: Value, layout: AttentionLayout): Value {
    const { graph } = this;
    const [q, k, v] = splitHeads(graph, qkv, layout);
    const turn = (value: Value) => (layout.rope === undefined ? value : this.rotate(value, layout.rope));
    const mixed = graph.op("Attention", [turn(q), turn(k), v], { causal: layout.causal ? 1 : 0 });
    return joinHeads(graph, mixed);
  }

  linearCrossEntropy(x: Value, weight: Value, bias: Value | undefined, transposed: boolean): Value {
    const head = headOperands(this.graph, x, weight, bias, transposed);
    if (!this.#state.options.training) {
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
    if (!this.#state.options.training) this.#state.counts.push(countHits(this.graph, scores, this.labels()));
  }
}

/** [batch, seq, (heads + 2 kvHeads) width] to q, k, v as [batch, heads, seq, width]. */
export function splitHeads(graph: GraphBuilder, qkv: Value, layout: AttentionLayout): [Value, Value, Value] {
  const { heads, kvHeads, headDim } = layout;
  const [batch, sequence] = qkv.shape as [number, number];
  const split = [heads, kvHeads, kvHeads].map((count) => count * headDim);
  const parts = graph.ops("Split", [qkv], { axis: 2, split }, 3);
  return parts.map((part) => {
    const rows = graph.op("Reshape", [part], { shape: [batch, sequence, part.shape[2]! / headDim, headDim] });
    return graph.op("Transpose", [rows], { perm: [0, 2, 1, 3] });
  }) as [Value, Value, Value];
}

/** [batch, heads, seq, width] to [batch, seq, heads width]. */
export function joinHeads(graph: GraphBuilder, value: Value): Value {
  const [batch, heads, sequence, width] = value.shape as [number, number, number, number];
  const turned = graph.op("Transpose", [value], { perm: [0, 2, 1, 3] });
  return graph.op("Reshape", [turned], { shape: [batch, sequence, heads * width] });
}
