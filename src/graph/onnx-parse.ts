// From the bytes of an ONNX file to its messages as plain data. Everything is bounded; tensors kept in other
// files and subgraphs are refused. What the messages mean is onnx-read.ts.

import { fail } from "../core/errors.ts";
import { fromBfloat16, fromFloat16 } from "../core/numbers/half.ts";
import { elementBytes, elementCount, type Tensor, viewData } from "../core/tensor.ts";
import type { Attribute } from "./model.ts";
import { onnxTypes } from "./operators/elements/cast.ts";
import { appendVarints, type ProtoField, readFields } from "./protobuf.ts";

export interface OnnxLimits {
  readonly bytesMax: number;
  readonly nodesMax: number;
  readonly elementsMax: number;
}

/** ONNX files end at 2 GB; ours are for machines that people lend. */
export const onnxLimits: OnnxLimits = { bytesMax: 1 << 30, nodesMax: 20_000, elementsMax: 1 << 28 };

export interface OnnxNode {
  readonly type: string;
  readonly domain: string;
  readonly name: string;
  readonly inputs: string[];
  readonly outputs: string[];
  readonly attributes: Record<string, Attribute>;
}

export interface OnnxValue {
  readonly name: string;
  readonly type: number;
  /** Numbers, names of sizes, or undefined where the file is silent. */
  readonly shape: readonly (number | string | undefined)[];
}

export interface OnnxGraph {
  readonly name: string;
  readonly opset: number;
  readonly nodes: readonly OnnxNode[];
  readonly initializers: ReadonlyMap<string, Tensor>;
  /** Tensors of texts, such as names of classes: no arithmetic knows them. */
  readonly texts: ReadonlyMap<string, readonly string[]>;
  /** What the exporter noted about the model. */
  readonly notes: ReadonlyMap<string, string>;
  readonly inputs: readonly OnnxValue[];
  readonly outputs: readonly OnnxValue[];
}

/** Lists longer than this are no shape and no kernel size. */
const listMax = 1 << 16;

export function parseOnnx(bytes: Uint8Array, limits: OnnxLimits = onnxLimits): OnnxGraph {
  if (bytes.byteLength > limits.bytesMax)
    fail("resource_exhausted", `the ONNX file has ${bytes.byteLength} bytes, at most ${limits.bytesMax} are allowed`);
  let graph: Uint8Array | undefined;
  let opset = 0;
  const notes = new Map<string, string>();
  for (const field of readFields(bytes, "the ONNX file")) {
    if (field.field === 14 && field.wire === 2) notes.set(...parseNote(field.bytes));
    if (field.field === 7 && field.wire === 2) graph = field.bytes;
    if (field.field === 8 && field.wire === 2) {
      const { domain, version } = parseOpset(field.bytes);
      if (domain === "" || domain === "ai.onnx") opset = version;
    }
  }
  if (graph === undefined) fail("invalid_argument", "the file holds no ONNX graph");
  return { ...parseGraph(graph, opset, limits), notes };
}

function parseNote(bytes: Uint8Array): [string, string] {
  let [key, value] = ["", ""];
  for (const field of readFields(bytes, "a note")) {
    if (field.field === 1) key = text(field);
    if (field.field === 2) value = text(field);
  }
  return [key, value];
}

function parseOpset(bytes: Uint8Array): { domain: string; version: number } {
  let [domain, version] = ["", 0];
  for (const field of readFields(bytes, "opset")) {
    if (field.field === 1) domain = text(field);
    if (field.field === 2) version = Number(field.number);
  }
  return { domain, version };
}

function parseGraph(bytes: Uint8Array, opset: number, limits: OnnxLimits): Omit<OnnxGraph, "notes"> {
  const nodes: OnnxNode[] = [];
  const initializers = new Map<string, Tensor>();
  const texts = new Map<string, readonly string[]>();
  const [inputs, outputs]: [OnnxValue[], OnnxValue[]] = [[], []];
  let name = "model";
  for (const field of readFields(bytes, "the ONNX graph")) {
    if (field.field === 1) nodes.push(parseNode(field.bytes, limits));
    if (nodes.length > limits.nodesMax)
      fail("resource_exhausted", `the ONNX graph has more than ${limits.nodesMax} nodes`);
    if (field.field === 2) name = text(field) || name;
    if (field.field === 5) {
      const { name: of, tensor, strings } = parseTensor(field.bytes, limits);
      if (tensor !== undefined) initializers.set(of, tensor);
      else texts.set(of, strings);
    }
    if (field.field === 11) inputs.push(parseValue(field.bytes));
    if (field.field === 12) outputs.push(parseValue(field.bytes));
    if (field.field === 15) fail("unimplemented", "the ONNX graph has sparse initializers, which are not supported");
  }
  return { name, opset, nodes, initializers, texts, inputs, outputs };
}

function parseNode(bytes: Uint8Array, limits: OnnxLimits): OnnxNode {
  const [inputs, outputs]: [string[], string[]] = [[], []];
  const attributes: Record<string, Attribute> = {};
  let [type, domain, name] = ["", "", ""];
  const raw: Uint8Array[] = [];
  for (const field of readFields(bytes, "an ONNX node")) {
    if (field.field === 1) inputs.push(text(field));
    if (field.field === 2) outputs.push(text(field));
    if (field.field === 3) name = text(field);
    if (field.field === 4) type = text(field);
    if (field.field === 5) raw.push(field.bytes);
    if (field.field === 7) domain = text(field);
  }
  for (const attribute of raw) {
    const parsed = parseAttribute(attribute, `${type} "${name}"`, limits);
    if (parsed.value !== undefined) attributes[parsed.name] = parsed.value;
  }
  return { type, domain, name, inputs, outputs, attributes };
}

function parseAttribute(
  bytes: Uint8Array,
  what: string,
  limits: OnnxLimits,
): { name: string; value: Attribute | undefined } {
  let name = "";
  let value: Attribute | undefined;
  const integers: number[] = [];
  const floats: number[] = [];
  const strings: string[] = [];
  for (const field of readFields(bytes, what)) {
    if (field.field === 1) name = text(field);
    if (field.field === 2) value = floatOf(field);
    if (field.field === 3) value = Number(BigInt.asIntN(64, field.number));
    if (field.field === 4) value = text(field);
    if (field.field === 5) {
      const { tensor, strings: list } = parseTensor(field.bytes, limits);
      value = tensor ?? list;
    }
    if (field.field === 6 || field.field === 11)
      fail("unimplemented", `${what} holds a subgraph: control flow is not supported`);
    if (field.field === 7) {
      for (const each of floatsOf(field)) floats.push(each);
      if (floats.length > limits.elementsMax) fail("resource_exhausted", `${what} has a list of too many numbers`);
    }
    if (field.field === 8) appendVarints(integers, field, what, listMax);
    if (field.field === 9) strings.push(text(field));
  }
  if (value === undefined)
    value = integers.length > 0 ? integers : floats.length > 0 ? floats : strings.length > 0 ? strings : undefined;
  return { name, value };
}

interface ParsedTensor {
  readonly name: string;
  /** Undefined for texts. */
  readonly tensor: Tensor | undefined;
  readonly strings: readonly string[];
}

/** ONNX' number of the type of texts. */
const stringType = 8;

function parseTensor(bytes: Uint8Array, limits: OnnxLimits): ParsedTensor {
  const shape: number[] = [];
  const strings: string[] = [];
  const numbers: number[] = [];
  let [type, name] = [0, ""];
  let raw: Uint8Array | undefined;
  for (const field of readFields(bytes, "an ONNX tensor")) {
    if (field.field === 1) appendVarints(shape, field, "a tensor's shape", 16);
    if (field.field === 2) type = Number(field.number);
    if (field.field === 4) for (const value of floatsOf(field)) numbers.push(value);
    if (field.field === 5 || field.field === 7) appendVarints(numbers, field, "a tensor", limits.elementsMax);
    if (field.field === 6) strings.push(text(field));
    if (strings.length > listMax) fail("resource_exhausted", `tensor "${name}" holds too many texts`);
    if (field.field === 8) name = text(field);
    if (field.field === 9) raw = field.bytes;
    if (field.field === 10) for (const value of doublesOf(field)) numbers.push(value);
    if (field.field === 13 || (field.field === 14 && field.number === 1n))
      fail("unimplemented", `tensor "${name}" lies in another file: save the model with its weights inside`);
  }
  if (type === stringType) return { name, tensor: undefined, strings };
  const dtype = onnxTypes[type];
  const what = `tensor "${name}"`;
  if (dtype === undefined)
    fail(
      "unimplemented",
      `${what} has the ONNX type ${type}: float32, float16, bfloat16, float64, int32, int64, uint8 and bool are supported`,
    );
  const count = elementCount(shape);
  if (shape.some((size) => size < 0) || count > limits.elementsMax)
    fail("resource_exhausted", `${what} has the shape [${shape}]: at most ${limits.elementsMax} elements are allowed`);
  if (raw ? raw.byteLength !== count * elementBytes(dtype) : numbers.length !== count)
    fail("invalid_argument", `${what} of shape [${shape}] does not hold ${count} elements: the file is damaged`);
  const data = raw ? viewData(dtype, raw) : fillData(dtype, numbers);
  return { name, tensor: inSingles({ dtype, shape, data }), strings };
}

/** Whatever precision a file has, arithmetic is in float32. */
function inSingles({ dtype, shape, data }: Tensor): Tensor {
  if (dtype === "float64") return { dtype: "float32", shape, data: Float32Array.from(data as Float64Array) };
  if (dtype !== "float16" && dtype !== "bfloat16") return { dtype, shape, data };
  return { dtype: "float32", shape, data: (dtype === "float16" ? fromFloat16 : fromBfloat16)(data as Uint16Array) };
}

function fillData(dtype: Tensor["dtype"], numbers: readonly number[]): Tensor["data"] {
  if (dtype === "int64") return BigInt64Array.from(numbers, BigInt);
  if (dtype === "float32") return Float32Array.from(numbers);
  if (dtype === "float64") return Float64Array.from(numbers);
  if (dtype === "int32") return Int32Array.from(numbers);
  // Halves written as whole numbers are their bits.
  if (dtype === "float16" || dtype === "bfloat16") return Uint16Array.from(numbers);
  return Uint8Array.from(numbers);
}

function parseValue(bytes: Uint8Array): OnnxValue {
  let [name, type] = ["", 0];
  const shape: (number | string | undefined)[] = [];
  for (const field of readFields(bytes, "an ONNX value")) {
    if (field.field === 1) name = text(field);
    if (field.field !== 2) continue;
    for (const kind of readFields(field.bytes, "an ONNX type")) {
      // Lists and maps, such as those of classifiers, have no type that arithmetic knows.
      if (kind.field !== 1) continue;
      for (const part of readFields(kind.bytes, "an ONNX tensor type")) {
        if (part.field === 1) type = Number(part.number);
        if (part.field === 2)
          for (const dimension of readFields(part.bytes, "an ONNX shape")) shape.push(parseDimension(dimension.bytes));
      }
    }
  }
  return { name, type, shape };
}

function parseDimension(bytes: Uint8Array): number | string | undefined {
  for (const field of readFields(bytes, "an ONNX size")) {
    if (field.field === 1) return Number(field.number);
    if (field.field === 2) return text(field);
  }
  return undefined;
}

const decoder = new TextDecoder();

function text(field: ProtoField): string {
  return decoder.decode(field.bytes);
}

function floatOf(field: ProtoField): number {
  return new Float32Array(Uint32Array.of(Number(field.number)).buffer)[0] as number;
}

function floatsOf(field: ProtoField): ArrayLike<number> & Iterable<number> {
  if (field.wire === 5) return [floatOf(field)];
  if (field.bytes.byteLength % 4 !== 0) fail("invalid_argument", "a list of floats in the ONNX file is cut off");
  return viewData("float32", field.bytes) as Float32Array;
}

function doublesOf(field: ProtoField): ArrayLike<number> & Iterable<number> {
  if (field.wire === 1) return new Float64Array(BigUint64Array.of(field.number).buffer);
  if (field.bytes.byteLength % 8 !== 0) fail("invalid_argument", "a list of doubles in the ONNX file is cut off");
  return viewData("float64", field.bytes) as Float64Array;
}
