// The compiled form of a network: operational VNodes with their ports, parameters and edges. It depends
// on the definition alone, never on placement, so that placement never changes bits. compile.ts makes it,
// graphs.ts builds what the engines run.

import type { EdgeId, Sha256, VNodeId } from "../core/ids.ts";
import type { WireType } from "../core/numbers/wire-types.ts";
import type { Shape } from "../core/tensor.ts";
import type { SparseGradient } from "../graph/derive.ts";
import type { GraphModel, ValueInfo } from "../graph/model.ts";
import type { BodyNode } from "./body.ts";

export interface Plan {
  readonly name: string;
  readonly definition: Sha256;
  /** In id order; the step root hashes them in this order. */
  readonly vnodes: readonly VNodePlan[];
  /** The same ids in an order in which values flow. */
  readonly order: readonly VNodeId[];
  /** What a sample of the dataset must hold, without the batch axis. Absent: not needed. */
  readonly inputs?: DataPlan;
  readonly labels?: DataPlan;
  readonly edges: readonly PlanEdge[];
  readonly outputs: readonly PlanOutput[];
  readonly costs: readonly PlanOutput[];
  readonly metrics: readonly PlanMetric[];
  /** VNodes that must share a PNode without being fused (embedding and LM head, for example). */
  readonly colocations: readonly (readonly VNodeId[])[];
}

export interface DataPlan {
  readonly shape: Shape;
  readonly wire: "float32" | "int32";
  /** Token ids are at least 0 and below it; absent where any number goes. */
  readonly below?: number;
}

/** `port` is an output port or a result of the VNode (evaluation graphs give both), or its loss. */
export interface PlanOutput {
  readonly name: string;
  readonly vnode: VNodeId;
  readonly port: string;
}

export interface PlanMetric {
  readonly name: string;
  readonly kind: string;
  readonly vnode: VNodeId;
}

export interface PlanEdge {
  readonly id: EdgeId;
  /**
   * A tie carries weights once per step and brings their gradient back once per step. A reduce edge joins two copies of a
   * VNode (lanes.ts): one's part of a gradient, and the sum that the other made of all parts. An outer edge does the same
   * at the end of a round, with how far weights have moved in it.
   */
  readonly kind: "activation" | "tie" | "reduce" | "outer";
  readonly from: VNodeId;
  /** Activations: a port that feeds this edge only. Ties: the name of the publisher's parameter. Reduce edges: a lane. */
  readonly fromPort: string;
  readonly to: VNodeId;
  readonly toPort: string;
  /** Without the batch axis for activations; whole for others. */
  readonly shape: Shape;
  readonly wire: WireType;
  /** False where nothing upstream learns or no cost lies downstream: then no gradient comes back. */
  readonly gradient: boolean;
}

/**
 * `learns`: has a backward pass. `loss`: has a cost, and starts the backward pass by itself. `passes`: nothing to
 * learn here and no gradient to hand back, so it is done with a microbatch once it has sent its outputs.
 */
export type Role = "learns" | "loss" | "passes";

export interface VNodePlan {
  readonly id: VNodeId;
  /** Where a network has lanes: which VNode of it this is, and in which of how many lanes. */
  readonly copy?: { readonly of: VNodeId; readonly lane: number; readonly lanes: number };
  /** The definition's nodes that were fused, in topological order. */
  readonly nodes: readonly string[];
  readonly role: Role;
  readonly inputs: readonly PortPlan[];
  /** Ports that feed activation edges, one edge each. Weights that ties carry are parameters, not ports. */
  readonly outputs: readonly PortPlan[];
  /** Network outputs that feed no edge: evaluation and generation graphs give them, training graphs do not. */
  readonly results: readonly PortPlan[];
  readonly parameters: readonly ParameterPlan[];
  readonly chances: readonly ChancePlan[];
  readonly optimizer: OptimizerPlan;
  /** Name of the scalar loss port; a VNode that has one starts the backward pass by itself. */
  readonly loss?: string;
  /** Multiply-adds count as two. Forward pass of one sample. */
  readonly flopsPerSample: number;
  /** Bytes of activations kept from forward to backward, one sample. */
  readonly savedBytesPerSample: number;
  /** What graphs.ts builds from. */
  readonly body: readonly BodyNode[];
}

export interface PortPlan {
  readonly name: string;
  /** Without the batch axis; whole for ties. */
  readonly shape: Shape;
  readonly wire: WireType;
  /** Where an input comes from: another VNode, or the dataset's `inputs` or `labels`. */
  readonly source: "edge" | "inputs" | "labels";
  readonly kind: "activation" | "tie";
  /** Whether a gradient flows here: back out of an input, or into an output. */
  readonly gradient: boolean;
}

export interface ParameterPlan {
  /** `node.name`, for example `linear_1.weight`. */
  readonly name: string;
  readonly shape: Shape;
  readonly initial: InitialPlan;
  /** Weight decay applies to matrices only. */
  readonly decay: boolean;
  /** Graphs run on a copy rounded to this; the master that learns is float32. */
  readonly precision: "float32" | "float16" | "bfloat16";
  /** Stays as it is: no gradient, no moments. */
  readonly frozen?: true;
  /** May be missing where a network starts from: then it is drawn. */
  readonly adapter?: true;
}

export type InitialPlan =
  | { readonly kind: "constant"; readonly value: number }
  | { readonly kind: "normal"; readonly deviation: number }
  | { readonly kind: "uniform"; readonly bound: number };

/** A graph input that the VNode fills from the counter-based generator (dropout and random masks). */
export interface ChancePlan {
  readonly name: string;
  /** Without the batch axis. */
  readonly shape: Shape;
  /** An element is `keepValue` with probability 1 - rate, else `dropValue`. */
  readonly rate: number;
  readonly keepValue: number;
  readonly dropValue: number;
}

export type OptimizerPlan =
  | {
      readonly kind: "adam" | "adamw";
      readonly beta1: number;
      readonly beta2: number;
      readonly epsilon: number;
      readonly weightDecay: number;
    }
  | { readonly kind: "sgd"; readonly momentum: number; readonly weightDecay: number };

export interface BuildOptions {
  /** Samples in one microbatch: the leading axis of every activation. */
  readonly microbatch: number;
  /** What the loss is multiplied with before its gradient is taken: 1 / microbatches. */
  readonly lossScale: number;
}

/**
 * The graphs of one VNode for training. Names: inputs and outputs are the ports' names, parameters and
 * chances their own; gradients are `grad:` + the name of what they are the gradient of.
 */
export interface TrainingGraphs {
  /** feeds: inputs, parameters, chances. outputs: output ports, then `saved`. */
  readonly forward: GraphModel;
  /**
   * feeds: `saved`, and those of inputs, parameters, chances and `grad:` + output ports that it lists as inputs.
   * outputs: `grad:` + inputs that need one, `grad:` + parameters. Absent when `forward` already yields
   * them: a VNode with a loss computes its gradients in one go, and then `saved` holds them.
   */
  readonly backward?: GraphModel;
  readonly saved: readonly ValueInfo[];
  /**
   * Embedding tables: instead of (or, with a tie inside the VNode, besides) `grad:` + parameter, the graph that
   * yields gradients has an output [ids, width] whose row i belongs to row ids[i] of the parameter. To be added
   * in index order, microbatch after microbatch.
   */
  readonly sparse: readonly SparseGradient[];
}

/** What travels on an edge, `samples` in a microbatch. */
export function messageShape({ kind, shape }: Pick<PlanEdge, "kind" | "shape">, samples: number): Shape {
  return kind === "activation" ? [samples, ...shape] : shape;
}
