// Reads ONNX models into graphs of ours: sizes become concrete, computations of shapes are carried out, and
// constant inputs become attributes. Operators that we do not know are named, never skipped.

import { fail } from "../core/errors.ts";
import { elementCount, type Tensor } from "../core/tensor.ts";
import { GraphBuilder, type Value } from "./builder.ts";
import type { Attribute, GraphModel } from "./model.ts";
import { constantOperators, int64s } from "./onnx-constants.ts";
import { type OnnxGraph, type OnnxLimits, type OnnxNode, type OnnxValue, onnxLimits, parseOnnx } from "./onnx-parse.ts";
import { onnxTypes } from "./operators/cast.ts";
import { findOperator } from "./operators/registry.ts";

export interface DecodeOptions extends Partial<OnnxLimits> {
  /** Stands for a leading size that the file leaves open. */
  readonly batch?: number;
  /** Values of other open sizes, by the name they have in the file. */
  readonly sizes?: Readonly<Record<string, number>>;
  /** Initializers that become inputs of the graph instead of constants: weights that are to learn. */
  readonly asInput?: (name: string) => boolean;
}

/** Float initializers keep their names as constants; int64 inputs become int32, which is what travels. */
export function decodeOnnx(bytes: Uint8Array, options: DecodeOptions = {}): GraphModel {
  const graph = parseOnnx(bytes, { ...onnxLimits, ...options });
  const unknown = new Set(graph.nodes.filter((node) => !isKnown(node)).map((node) => node.type));
  if (unknown.size > 0)
    fail("unimplemented", `the ONNX model uses operators that are not supported: ${[...unknown].sort().join(", ")}`);
  const builder = new GraphBuilder(graph.name);
  const values = new Map<string, Value>();
  for (const [name, tensor] of graph.initializers) {
    const value = options.asInput?.(name)
      ? builder.input(name, tensor.dtype, tensor.shape)
      : builder.constant(tensor, name || "initializer");
    values.set(name, value);
  }
  for (const input of graph.inputs)
    if (!values.has(input.name)) values.set(input.name, addInput(builder, input, options));
  for (const node of graph.nodes) addNode(builder, graph, node, values);
  for (const { name } of graph.outputs)
    builder.output(
      values.get(name) ?? fail("invalid_argument", `the ONNX model never computes its output "${name}"`),
      name,
    );
  return builder.build();
}

/** Handled here rather than by an operator of ours. */
const special: Readonly<
  Record<string, (builder: GraphBuilder, node: OnnxNode, inputs: (Value | undefined)[]) => Value[]>
> = {
  Constant: (builder, node) => [builder.constant(constantOf(node))],
  Shape: (builder, node, [x]) => {
    const { shape } = x as Value;
    const [start, end] = [node.attributes["start"] ?? 0, node.attributes["end"] ?? shape.length] as [number, number];
    return [builder.constant(int64s(shape.slice(start, end)))];
  },
  Size: (builder, _node, [x]) => {
    const count = BigInt64Array.of(BigInt(elementCount((x as Value).shape)));
    return [builder.constant({ dtype: "int64", shape: [], data: count })];
  },
  Identity: (_builder, _node, [x]) => [x as Value],
  Dropout: (_builder, _node, [x]) => [x as Value],
  Pow: (builder, node, [x, exponent]) => {
    const known = exponent?.constant;
    if (known === undefined || known.data.length !== 1)
      return fail("unimplemented", `${place(node)} needs one constant exponent`);
    return [builder.op("Pow", [x as Value], { exponent: Number(known.data[0]) })];
  },
  Gelu: (builder, node, [x]) =>
    node.attributes["approximate"] === "tanh" ? [tanhGelu(builder, x as Value)] : [builder.op("Gelu", [x as Value])],
};

/** Composites that also are names of ONNX operators with the same meaning. */
const sharedComposites = new Set(["Flatten", "Squeeze", "Unsqueeze", "GlobalAveragePool"]);

function isKnown({ type, domain }: OnnxNode): boolean {
  if (type in special || type in constantOperators)
    return domain === "" || domain === "ai.onnx" || domain === "com.microsoft";
  const operator = findOperator(type);
  if (
    operator === undefined ||
    operator.attributeInputsAt !== undefined ||
    (operator.lower && !sharedComposites.has(type))
  )
    return false;
  return domain === (operator.domain ?? "") || domain === "ai.onnx";
}

/** Attributes that carry no meaning for us at the given value; any other unknown attribute is refused. */
const ignorable: Readonly<Record<string, (value: Attribute) => boolean>> = {
  momentum: () => true,
  seed: () => true,
  stash_type: (value) => value === 1,
  spatial: (value) => value === 1,
  is_test: () => true,
  training_mode: (value) => value === 0,
  storage_order: (value) => value === 0,
  ceil_mode: (value) => value === 0,
  noop_with_empty_axes: (value) => value === 0,
  saturate: () => true,
  kernel_shape: () => true,
};

const meaningful: Readonly<Record<string, readonly string[]>> = {
  AveragePool: ["kernel_shape", "strides", "pads", "dilations", "auto_pad", "count_include_pad"],
  BatchNormalization: ["epsilon"],
  Cast: ["to"],
  Clip: ["min", "max"],
  Concat: ["axis"],
  Conv: ["strides", "pads", "dilations", "group", "auto_pad"],
  ConvTranspose: ["strides", "pads", "dilations", "group", "output_padding"],
  Flatten: ["axis"],
  FusedMatMul: ["transA", "transB", "alpha"],
  Gather: ["axis"],
  GatherElements: ["axis"],
  Gemm: ["transA", "transB", "alpha", "beta"],
  HardSigmoid: ["alpha", "beta"],
  LayerNormalization: ["axis", "epsilon"],
  LeakyRelu: ["alpha"],
  LogSoftmax: ["axis"],
  MaxPool: ["kernel_shape", "strides", "pads", "dilations", "auto_pad"],
  Pad: ["pads", "value", "mode"],
  ReduceMax: ["axes", "keepdims"],
  ReduceMean: ["axes", "keepdims"],
  ReduceSum: ["axes", "keepdims"],
  Reshape: ["shape", "allowzero"],
  ScatterElements: ["axis", "reduction"],
  Slice: ["starts", "ends", "axes", "steps"],
  Softmax: ["axis"],
  Split: ["axis", "split", "num_outputs"],
  Squeeze: ["axes"],
  Transpose: ["perm"],
  Unsqueeze: ["axes"],
};

function addNode(builder: GraphBuilder, graph: OnnxGraph, node: OnnxNode, values: Map<string, Value>): void {
  const inputs = node.inputs.map((name) => {
    if (name === "") return undefined;
    return (
      values.get(name) ?? fail("invalid_argument", `${place(node)} uses "${name}", which nothing computes before it`)
    );
  });
  const outputs =
    constantResult(builder, node, inputs) ??
    special[node.type]?.(builder, node, inputs) ??
    addKnown(builder, graph, node, inputs);
  for (const [i, name] of node.outputs.entries()) {
    const value = outputs[i];
    if (name !== "" && value) values.set(name, value);
  }
}

function constantResult(builder: GraphBuilder, node: OnnxNode, inputs: (Value | undefined)[]): Value[] | undefined {
  const compute = constantOperators[node.type];
  if (compute === undefined) return undefined;
  const tensors = inputs.map((input) => input?.constant);
  if (!tensors.every((tensor) => tensor !== undefined))
    fail("unimplemented", `${place(node)} is supported for constants only, its inputs are computed`);
  return [builder.constant(compute(tensors as Tensor[], node.attributes))];
}

function addKnown(builder: GraphBuilder, graph: OnnxGraph, node: OnnxNode, given: (Value | undefined)[]): Value[] {
  const operator = findOperator(node.type);
  const moved = operator?.attributeInputs ?? [];
  const attributes: Record<string, Attribute> = {};
  for (const [name, value] of Object.entries(node.attributes)) {
    if (meaningful[node.type]?.includes(name)) attributes[name] = value;
    else if (!ignorable[name]?.(value))
      fail("unimplemented", `${place(node)}: its attribute "${name}" is not supported`);
  }
  const inputs = moved.length > 0 ? given.slice(0, 1) : given;
  if (moved.length > 0) for (const [i, name] of moved.entries()) moveInput(node, name, given[i + 1], attributes);
  while (inputs.length > 0 && inputs.at(-1) === undefined) inputs.pop();
  const present = inputs.map(
    (input) => input ?? fail("unimplemented", `${place(node)} leaves out an input that is needed`),
  );
  checkOldSoftmax(graph, node, attributes, present[0]);
  if (node.type === "Split" && !attributes["split"] && !attributes["num_outputs"])
    attributes["num_outputs"] = node.outputs.length;
  return builder.ops(node.type, present, attributes, node.outputs.length);
}

function moveInput(
  node: OnnxNode,
  name: string,
  value: Value | undefined,
  attributes: Record<string, Attribute>,
): void {
  if (value === undefined) return;
  if (value.constant === undefined)
    fail("unimplemented", `${place(node)}: its ${name} must be known beforehand, not computed`);
  const numbers = Array.from(value.constant.data as Float32Array, Number);
  attributes[name] = value.shape.length === 0 ? (numbers[0] as number) : numbers;
}

/** Before opset 13, softmax joined all axes from `axis` on; it means the same only for the last one. */
function checkOldSoftmax(
  graph: OnnxGraph,
  node: OnnxNode,
  attributes: Record<string, Attribute>,
  x: Value | undefined,
): void {
  if ((node.type !== "Softmax" && node.type !== "LogSoftmax") || graph.opset >= 13 || x === undefined) return;
  const axis = (attributes["axis"] ?? 1) as number;
  if (axis !== -1 && axis !== x.shape.length - 1)
    fail("unimplemented", `${place(node)} joins several axes, as before opset 13: export with opset 13 or later`);
  attributes["axis"] = -1;
}

function addInput(builder: GraphBuilder, input: OnnxValue, options: DecodeOptions): Value {
  const dtype = onnxTypes[input.type];
  const shape = input.shape.map((size, axis) => concreteSize(input, size, axis, options));
  if (dtype === "int64") return builder.op("Cast", [builder.input(input.name, "int32", shape)], { to: 7 });
  if (dtype !== "float32" && dtype !== "int32" && dtype !== "bool")
    fail(
      "unimplemented",
      `input "${input.name}" has the ONNX type ${input.type}: float32, int32, int64 and bool are supported`,
    );
  return builder.input(input.name, dtype, shape);
}

function concreteSize(
  input: OnnxValue,
  size: number | string | undefined,
  axis: number,
  options: DecodeOptions,
): number {
  const named = typeof size === "string" ? options.sizes?.[size] : undefined;
  const value = typeof size === "number" && size > 0 ? size : (named ?? (axis === 0 ? options.batch : undefined));
  if (value === undefined || !Number.isSafeInteger(value) || value < 1)
    fail(
      "invalid_argument",
      `axis ${axis} of input "${input.name}" has the open size ${size ?? "?"}: say how large it is`,
    );
  return value;
}

function constantOf(node: OnnxNode): Tensor {
  const { value, value_float, value_floats, value_int, value_ints } = node.attributes as Record<
    string,
    Attribute | undefined
  >;
  if (value !== undefined && typeof value === "object" && "data" in value) return value;
  if (typeof value_float === "number") return { dtype: "float32", shape: [], data: Float32Array.of(value_float) };
  if (typeof value_int === "number") return { dtype: "int64", shape: [], data: BigInt64Array.of(BigInt(value_int)) };
  if (Array.isArray(value_ints)) return int64s(value_ints as number[]);
  const floats = (value_floats ??
    fail("unimplemented", `${place(node)} holds neither numbers nor a tensor`)) as number[];
  return { dtype: "float32", shape: [floats.length], data: Float32Array.from(floats) };
}

function tanhGelu(builder: GraphBuilder, x: Value): Value {
  const cube = builder.op("Mul", [x, builder.op("Mul", [x, x])]);
  const inner = builder.op("Add", [x, builder.op("Mul", [cube, builder.scalar(0.044715)])]);
  const tanh = builder.op("Tanh", [builder.op("Mul", [inner, builder.scalar(0.7978845608028654)])]);
  const half = builder.op("Mul", [x, builder.scalar(0.5)]);
  return builder.op("Mul", [half, builder.op("Add", [tanh, builder.scalar(1)])]);
}

function place(node: OnnxNode): string {
  return `ONNX node ${node.type} "${node.name || node.outputs[0]}"`;
}
