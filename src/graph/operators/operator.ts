// What an operator is: one shape rule, one slow and clear forward, one derivative. Every file beside this
// one holds one operator; registry.ts lists them. Nothing here knows how graphs are stored or run.

import type { Tensor, TensorData } from "../../core/tensor.ts";
import type { Attribute, ValueInfo } from "../model.ts";

/** A value while a graph is being built: constants can be looked at by shape rules and derivatives. */
export interface Value extends ValueInfo {
  readonly constant?: Tensor;
}

export type Attributes = Readonly<Record<string, Attribute>>;

export type ResultType = Pick<ValueInfo, "dtype" | "shape">;

/** What derivatives and lowerings write to; GraphBuilder is the implementation. */
export interface Builder {
  constant(tensor: Tensor, name?: string): Value;
  scalar(value: number): Value;
  op(type: string, inputs: readonly Value[], attributes?: Attributes): Value;
  ops(type: string, inputs: readonly Value[], attributes: Attributes, outputCount: number): Value[];
}

/** Computes one node: reads the inputs' data, fills the outputs' data, keeps nothing between calls. */
export type Kernel = (inputs: readonly TensorData[], outputs: readonly TensorData[]) => void;

/** One node of a forward graph whose outputs' gradients are known and whose inputs' gradients are wanted. */
export interface Derivation {
  readonly builder: Builder;
  readonly inputs: readonly Value[];
  readonly outputs: readonly Value[];
  readonly attributes: Attributes;
  /** Undefined where nothing depends on that output. At least one is defined. */
  readonly gradients: readonly (Value | undefined)[];
  /** Which inputs need a gradient; the others may be left undefined. */
  readonly wanted: readonly boolean[];
  /** Declares that rows `ids` of `table` have the gradient `rows`; the runtime adds them up in index order. */
  sparse(table: Value, ids: Value, rows: Value): void;
}

export interface Operator {
  readonly type: string;
  /** Its name in ONNX, where a composite of ours has taken that. */
  readonly onnxType?: string;
  /** Contrib operators of ONNX Runtime; absent: the standard domain. */
  readonly domain?: "com.microsoft";
  /** Attributes of ours that the ONNX format takes as constant inputs, in this order. */
  readonly attributeInputs?: readonly string[];
  /** Where they stand among the inputs; absent: behind the others. */
  readonly attributeInputsAt?: number;
  /** True: cheap enough to be computed again in the backward graph rather than kept in memory. */
  readonly cheap: boolean;
  /** The results' types; fails with a sentence that names the operator and the shapes. */
  infer(inputs: readonly Value[], attributes: Attributes): ResultType[];
  /** The reference semantic, prepared for fixed shapes. Works on float32 and float64 data alike. */
  plan(inputs: readonly ValueInfo[], outputs: readonly ValueInfo[], attributes: Attributes): Kernel;
  /** Vector-Jacobian product: gradients of the inputs, in order. Absent: not differentiable. */
  vjp?(derivation: Derivation): (Value | undefined)[];
  /** Only composites have it: the same function in ONNX operators. */
  lower?(builder: Builder, inputs: readonly Value[], attributes: Attributes): Value[];
  /** Multiply-adds count as two. Absent: one per output element. */
  flops?(inputs: readonly ValueInfo[], outputs: readonly ValueInfo[], attributes: Attributes): number;
}
