// A compute graph as plain data, at the level of ONNX operators. The builder makes it, autodiff derives
// its backward, onnx.ts writes and reads the ONNX file format, engines execute it.

import type { DType, Shape, Tensor } from "../core/tensor.ts";

export interface ValueInfo {
  readonly name: string;
  readonly dtype: DType;
  /** Always concrete: the batch size is part of a graph. */
  readonly shape: Shape;
}

export type Attribute = number | string | readonly number[] | readonly string[] | Tensor;

export interface GraphNode {
  readonly op: string;
  readonly name: string;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  readonly attributes: Readonly<Record<string, Attribute>>;
}

export interface GraphModel {
  readonly name: string;
  readonly inputs: readonly ValueInfo[];
  readonly outputs: readonly ValueInfo[];
  /** In an order that can be executed as it stands. */
  readonly nodes: readonly GraphNode[];
  readonly constants: Readonly<Record<string, Tensor>>;
}
