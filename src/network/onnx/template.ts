// A piece of an imported model as text: operators, fixed numbers and the names of its weights, for any batch size.
// It is found by reading the model for two batch sizes and comparing: what differs in proportion is the batch.

import { base64Of, bytesOfBase64, bytesOfText, joinBytes, sameBytes, textOf } from "../../core/bytes.ts";
import { fail, messageOf } from "../../core/errors.ts";
import {
  allocate,
  bytesOf,
  type DType,
  elementBytes,
  elementCount,
  type Shape,
  type Tensor,
  viewData,
} from "../../core/tensor.ts";
import type { Attribute, GraphNode } from "../../graph/model.ts";
import type { Attributes, Builder, Value } from "../../graph/operators/operator.ts";
import { findOperator } from "../../graph/operators/registry.ts";

/** A number, or `b` times the batch size. */
export type Size = number | { readonly b: number };

export interface TemplateNode {
  readonly op: string;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  readonly attributes: Readonly<Record<string, string | Size | readonly (string | Size)[]>>;
}

export interface TemplateConstant {
  readonly name: string;
  readonly dtype: DType;
  /** Without the batch axis if `repeated`. */
  readonly shape: Shape;
  /** Base64. */
  readonly data: string;
  /** The same for every sample: the batch axis is added. */
  readonly repeated: boolean;
  /** Where it is added; absent: in front. */
  readonly axis?: number;
  /** One number everywhere: this is its shape, and `shape` is that of the number. */
  readonly sizes?: readonly Size[];
}

export interface Template {
  readonly input: { readonly name: string; readonly kind: "floats" | "tokens"; readonly shape: Shape };
  readonly output: { readonly name: string; readonly shape: Shape };
  readonly parameters: readonly { readonly name: string; readonly shape: Shape }[];
  readonly constants: readonly TemplateConstant[];
  readonly nodes: readonly TemplateNode[];
}

const nodesMax = 20_000;
const constantBytesMax = 4 << 20;
/** Of a constant that is one number everywhere. */
const constantElementsMax = 1 << 26;

/** Both are one node, read for `batches[0]` and `batches[1]` samples. */
export function templateNode(pair: readonly [GraphNode, GraphNode], batches: readonly [number, number]): TemplateNode {
  const [a, b] = pair;
  const attributes: Record<string, TemplateNode["attributes"][string]> = {};
  for (const [key, value] of Object.entries(a.attributes)) {
    const other = b.attributes[key]!;
    const merged = (x: unknown, y: unknown): string | Size => {
      if (typeof x === "string" && x === y) return x;
      if (typeof x === "number" && typeof y === "number") {
        if (x === y) return x;
        if (x % batches[0] === 0 && (x / batches[0]) * batches[1] === y) return { b: x / batches[0] };
      }
      return fail("unimplemented", `the ONNX model's ${a.op} (${a.name}) depends on the batch size by its "${key}"`);
    };
    if (Array.isArray(value)) attributes[key] = value.map((x, i) => merged(x, (other as readonly unknown[])[i]));
    else attributes[key] = merged(value, other);
  }
  return { op: a.op, inputs: a.inputs, outputs: a.outputs, attributes };
}

export function templateConstant(
  name: string,
  pair: readonly [Tensor, Tensor],
  batches: readonly [number, number],
): TemplateConstant {
  const [a, b] = pair;
  const bytes = bytesOf(a);
  const encode = (part: Uint8Array, shape: Shape, repeated: boolean) => {
    if (part.byteLength > constantBytesMax)
      fail(
        "resource_exhausted",
        `the ONNX model's constant "${name}" has ${part.byteLength} bytes, at most ${constantBytesMax} are allowed`,
      );
    return { name, dtype: a.dtype, shape, data: base64Of(part), repeated };
  };
  if (String(a.shape) === String(b.shape) && sameBytes(bytes, bytesOf(b))) return encode(bytes, a.shape, false);
  const axis = a.shape.findIndex((size, at) => size !== b.shape[at]);
  const sized = a.shape.map((size, at) => sizeOf(size, b.shape[at], batches));
  if (a.shape.length === b.shape.length && sized.every((size) => size !== undefined)) {
    if (isUniform(a) && isUniform(b) && a.data[0] === b.data[0])
      return { ...encode(bytes.subarray(0, elementBytes(a.dtype)), [], false), sizes: sized as Size[] };
    const others = a.shape.filter((_, at) => at !== axis);
    const [row, twin] = [rowAlong(a, axis), rowAlong(b, axis)];
    const only = a.shape[axis] === batches[0] && sized.every((size, at) => at === axis || typeof size === "number");
    if (only && row !== undefined && twin !== undefined && sameBytes(row, twin))
      return { ...encode(row, others, true), ...(axis > 0 && { axis }) };
  }
  return fail("unimplemented", `the ONNX model's constant "${name}" depends on the batch size`);
}

function sizeOf(x: number, y: number | undefined, batches: readonly [number, number]): Size | undefined {
  if (x === y) return x;
  return x % batches[0] === 0 && (x / batches[0]) * batches[1] === y ? { b: x / batches[0] } : undefined;
}

function isUniform({ data }: Tensor): boolean {
  return data.length > 0 && (data as Float32Array).every((value) => value === data[0]);
}

/** What is the same at every place of an axis, or undefined. */
function rowAlong(tensor: Tensor, axis: number): Uint8Array | undefined {
  const bytes = bytesOf(tensor);
  const count = tensor.shape[axis] as number;
  const run = elementBytes(tensor.dtype) * elementCount(tensor.shape.slice(axis + 1));
  const outer = bytes.byteLength / (run * count);
  const row = new Uint8Array(outer * run);
  for (let i = 0; i < outer; i++) {
    const first = bytes.subarray(i * count * run, i * count * run + run);
    row.set(first, i * run);
    for (let j = 1; j < count; j++)
      if (!sameBytes(first, bytes.subarray((i * count + j) * run, (i * count + j + 1) * run))) return undefined;
  }
  return row;
}

export function encodeTemplate(template: Template): string {
  return base64Of(bytesOfText(JSON.stringify(template)));
}

/** From a definition that anyone may have written: every part is checked before it is used. */
export function decodeTemplate(text: string, where: string): Template {
  const refuse = (what: string): never => fail("invalid_argument", `${where}: key "graph" ${what}`);
  let plain: unknown;
  try {
    plain = JSON.parse(textOf(bytesOfBase64(text)));
  } catch (thrown) {
    return refuse(`is not a graph in base64 (${messageOf(thrown)}): make it with "dcnr network import-onnx"`);
  }
  const template = plain as Template;
  const isShape = (shape: unknown): shape is Shape =>
    Array.isArray(shape) &&
    shape.length <= 8 &&
    shape.every((size) => Number.isInteger(size) && size > 0 && size <= 1 << 28);
  const named = (value: unknown): value is { name: string; shape: Shape } =>
    typeof value === "object" &&
    value !== null &&
    typeof (value as { name: unknown }).name === "string" &&
    isShape((value as { shape: unknown }).shape);
  if (typeof plain !== "object" || plain === null || !named(template.input) || !named(template.output))
    return refuse("has no input or output");
  if (!["floats", "tokens"].includes(template.input.kind)) refuse("has an input of unknown kind");
  for (const list of [template.parameters, template.constants, template.nodes])
    if (!Array.isArray(list) || list.length > nodesMax)
      refuse("lacks its parameters, constants or nodes, or has too many");
  if (!template.parameters.every(named) || !template.constants.every(named))
    refuse("has a weight without name or shape");
  if (!template.constants.every(isPlaced)) refuse("has a constant in no place");
  for (const node of template.nodes) {
    const known = typeof node?.op === "string" && findOperator(node.op) !== undefined;
    if (!known) refuse(`uses the unknown operator ${JSON.stringify(node?.op)}`);
    const names = [node.inputs, node.outputs].every(
      (list) => Array.isArray(list) && list.every((name) => typeof name === "string"),
    );
    if (!names || typeof node.attributes !== "object" || node.attributes === null) refuse("has a malformed node");
  }
  return template;
}

/** More would be no shape of a network. */
const axesMax = 8;

/** The optional keys of a constant are what they should be. */
function isPlaced({ axis, sizes, shape }: TemplateConstant): boolean {
  const isSize = (size: unknown) => Number.isInteger(size) && (size as number) > 0 && (size as number) <= 1 << 28;
  const isSized = (size: Size) => isSize(typeof size === "object" ? size?.b : size);
  if (sizes !== undefined && !(Array.isArray(sizes) && sizes.length <= axesMax && sizes.every(isSized))) return false;
  return axis === undefined || (Number.isInteger(axis) && axis >= 0 && axis <= shape.length);
}

/** Builds the piece for `batch` samples. */
export function buildTemplate(
  template: Template,
  graph: Builder,
  input: Value,
  batch: number,
  parameter: (name: string) => Value,
): Value {
  const values = new Map<string, Value>([[template.input.name, input]]);
  for (const { name } of template.parameters) values.set(name, parameter(name));
  for (const constant of template.constants) values.set(constant.name, graph.constant(constantTensor(constant, batch)));
  for (const node of template.nodes) {
    const inputs = node.inputs.map(
      (name) => values.get(name) ?? fail("invalid_argument", `the imported graph uses "${name}" before it is computed`),
    );
    const outputs = graph.ops(node.op, inputs, attributesFor(node, batch), node.outputs.length);
    for (const [i, name] of node.outputs.entries()) values.set(name, outputs[i]!);
  }
  return (
    values.get(template.output.name) ??
    fail("invalid_argument", `the imported graph never computes "${template.output.name}"`)
  );
}

function attributesFor({ attributes }: TemplateNode, batch: number): Attributes {
  const sized = (value: string | Size) => (typeof value === "object" ? value.b * batch : value);
  const entries = Object.entries(attributes).map(([key, value]) => [
    key,
    Array.isArray(value) ? value.map(sized) : sized(value as string | Size),
  ]);
  return Object.fromEntries(entries) as Record<string, Attribute>;
}

function constantTensor(constant: TemplateConstant, batch: number): Tensor {
  const { dtype, shape, data, repeated, name, axis = 0, sizes } = constant;
  const row = viewData(dtype, bytesOfBase64(data));
  if (row.length !== elementCount(shape))
    fail("invalid_argument", `the imported graph's constant "${name}" does not fill its shape`);
  if (sizes !== undefined) {
    const full = sizes.map((size) => (typeof size === "object" ? size.b * batch : size));
    if (elementCount(full) > constantElementsMax)
      fail("resource_exhausted", `the imported graph's constant "${name}" is too large: [${full}]`);
    const tensor = allocate(dtype, full);
    (tensor.data as Float32Array).fill(row[0] as number);
    return tensor;
  }
  if (!repeated) return { dtype, shape, data: row };
  const bytes = bytesOf({ dtype, shape, data: row });
  const outer = elementCount(shape.slice(0, axis));
  const run = bytes.byteLength / outer;
  const parts = Array.from({ length: outer * batch }, (_, i) => {
    const at = Math.floor(i / batch) * run;
    return bytes.subarray(at, at + run);
  });
  const full = [...shape.slice(0, axis), batch, ...shape.slice(axis)];
  return { dtype, shape: full, data: viewData(dtype, joinBytes(parts)) };
}
