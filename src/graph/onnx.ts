// Writes graphs in the ONNX file format.
// Reading is in onnx-read.ts.

import { fail } from "../core/errors.ts";
import { bytesOf, type Tensor } from "../core/tensor.ts";
import type { Attribute, GraphModel, GraphNode, ValueInfo } from "./model.ts";
import { onnxTypeOf } from "./operators/elements/cast.ts";
import { operatorOf } from "./operators/registry.ts";
import { joined, ProtoWriter } from "./protobuf-write.ts";
import { perRow } from "./rows.ts";

/** The first opset with reductions and splits in their present form; every runtime we use has it. */
const opsetVersion = 18;
const irVersion = 8;

/** Attributes that ONNX keeps as floats even when their value is whole. */
const floatAttributes = new Set(["alpha", "beta", "epsilon", "momentum", "ratio"]);
/** Attribute inputs that are floats; all others are int64. */
const floatInputs = new Set(["min", "max", "value"]);

export function encodeOnnx(model: GraphModel): Uint8Array {
  return joined(encodeOnnxParts(model), (bytes) => new Uint8Array(bytes));
}

/** Where a constant's bytes lie beside a file, in its folder. */
export interface TensorPlace {
  readonly file: string;
  readonly offset: number;
  readonly bytes: number;
}

/** The file in pieces; constants are among them as they are, but those that lie beside it. */
export function encodeOnnxParts(
  model: GraphModel,
  beside: ReadonlyMap<string, TensorPlace> = new Map(),
): readonly Uint8Array[] {
  const writer = new ProtoWriter();
  writer.varint(1, irVersion);
  writer.text(2, "dcnr");
  writer.message(7, (graph) => encodeGraph(graph, model, beside));
  for (const [domain, version] of [
    ["", opsetVersion],
    ["com.microsoft", 1],
  ] as const)
    writer.message(8, (opset) => {
      opset.text(1, domain);
      opset.varint(2, version);
    });
  return writer.parts;
}

function encodeGraph(writer: ProtoWriter, model: GraphModel, beside: ReadonlyMap<string, TensorPlace>): void {
  const constants = new Map<string, Tensor>(Object.entries(model.constants));
  for (const node of model.nodes) writer.message(1, (message) => encodeNode(message, node, constants));
  writer.text(2, model.name);
  for (const [name, tensor] of constants)
    writer.message(5, (message) => encodeTensor(message, name, tensor, beside.get(name)));
  for (const input of model.inputs) writer.message(11, (message) => encodeValueInfo(message, input));
  for (const output of model.outputs) writer.message(12, (message) => encodeValueInfo(message, output));
}

function encodeNode(writer: ProtoWriter, node: GraphNode, constants: Map<string, Tensor>): void {
  const operator = operatorOf(node.op);
  if (operator.lower)
    fail("invalid_argument", `${node.op} is a composite: lower the graph before it is written as ONNX`);
  const moved = operator.attributeInputs ?? [];
  const inputs = [...node.inputs];
  inputs.splice(operator.attributeInputsAt ?? inputs.length, 0, ...attributeInputNames(node, moved, constants));
  for (const input of inputs) writer.text(1, input);
  for (const output of node.outputs) writer.text(2, output);
  writer.text(3, node.name);
  writer.text(4, operator.onnxType ?? node.op);
  for (const [name, value] of Object.entries(node.attributes))
    if (!moved.includes(name)) writer.message(5, (message) => encodeAttribute(message, name, value));
  if (operator.domain) writer.text(7, operator.domain);
}

/** Names of constants that hold the attributes which ONNX wants as inputs; "" for absent ones before present ones. */
function attributeInputNames(node: GraphNode, moved: readonly string[], constants: Map<string, Tensor>): string[] {
  const last = moved.findLastIndex((name) => node.attributes[name] !== undefined);
  return moved.slice(0, last + 1).map((attribute) => {
    const value = node.attributes[attribute];
    if (value === undefined) return "";
    const tensor = attributeTensor(attribute, value);
    // Equal lists share one constant, named by what it holds.
    const name = `${tensor.dtype}(${tensor.shape.length === 0 ? "" : "list "}${Array.from(tensor.data as Float32Array).join(" ")})`;
    constants.set(name, tensor);
    return name;
  });
}

function attributeTensor(name: string, value: Attribute): Tensor {
  if (typeof value === "number" && floatInputs.has(name))
    return { dtype: "float32", shape: [], data: Float32Array.of(value) };
  if (typeof value === "number") return { dtype: "int64", shape: [], data: BigInt64Array.of(BigInt(value)) };
  const numbers = value as readonly number[];
  return { dtype: "int64", shape: [numbers.length], data: BigInt64Array.from(numbers, (item) => BigInt(item)) };
}

function encodeAttribute(writer: ProtoWriter, name: string, value: Attribute): void {
  writer.text(1, name);
  if (typeof value === "string") {
    writer.text(4, value);
    writer.varint(20, 3);
  } else if (typeof value === "number" && (floatAttributes.has(name) || !Number.isInteger(value))) {
    writer.float(2, value);
    writer.varint(20, 1);
  } else if (typeof value === "number") {
    writer.varint(3, value);
    writer.varint(20, 2);
  } else if (Array.isArray(value)) {
    for (const item of value as readonly number[]) writer.varint(8, item);
    writer.varint(20, 7);
  } else {
    writer.message(5, (message) => encodeTensor(message, name, value as Tensor));
    writer.varint(20, 4);
  }
}

function encodeTensor(writer: ProtoWriter, name: string, tensor: Tensor, place?: TensorPlace): void {
  for (const size of tensor.shape) writer.varint(1, size);
  writer.varint(2, onnxTypeOf(tensor.dtype));
  writer.text(8, name);
  if (place === undefined) writer.data(9, bytesOf(tensor));
  else encodePlace(writer, place);
}

/** What ONNX calls external data. */
function encodePlace(writer: ProtoWriter, { file, offset, bytes }: TensorPlace): void {
  for (const [key, value] of [
    ["location", file],
    ["offset", `${offset}`],
    ["length", `${bytes}`],
  ] as const)
    writer.message(13, (entry) => {
      entry.text(1, key);
      entry.text(2, value);
    });
  writer.varint(14, 1);
}

function encodeValueInfo(writer: ProtoWriter, info: ValueInfo): void {
  writer.text(1, info.name);
  writer.message(2, (type) =>
    type.message(1, (tensor) => {
      tensor.varint(1, onnxTypeOf(info.dtype));
      tensor.message(2, (shape) => {
        for (const size of info.shape) shape.message(1, (dimension) => encodeSize(dimension, size));
      });
    }),
  );
}

/** Sizes that depend on the rows of a graph for any number of them have a name instead of a value. */
function encodeSize(writer: ProtoWriter, size: number): void {
  const rows = perRow(size);
  if (rows === undefined) writer.varint(1, size);
  else writer.text(2, rows === 1 ? "rows" : `${rows} rows`);
}
