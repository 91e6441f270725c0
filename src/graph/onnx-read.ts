// Reads ONNX models into graphs of ours: sizes become concrete, computations of shapes are carried out, and every
// operator is put into ours (translate/). Operators that we do not know are named, never skipped.

import { fail } from "../core/errors.ts";
import type { Shape, Tensor } from "../core/tensor.ts";
import { GraphBuilder, type Value } from "./builder.ts";
import type { GraphModel } from "./model.ts";
import { type OnnxGraph, type OnnxLimits, type OnnxValue, onnxLimits, parseOnnx } from "./onnx-parse.ts";
import { onnxTypes } from "./operators/elements/cast.ts";
import { constantOf } from "./translate/constants.ts";
import { expandLinearModels } from "./translate/linear-models.ts";
import { allocateBounded, placeOf, Site } from "./translate/site.ts";
import { translated, translationOf, translations } from "./translate/table.ts";

export interface DecodeOptions extends Partial<OnnxLimits> {
  /** Stands for a leading size that the file leaves open. */
  readonly batch?: number;
  /** True: a leading size of 1 is taken for open as well; exporters write it where nobody told them otherwise. */
  readonly opensOne?: boolean;
  /** Values of other open sizes, by the name they have in the file. */
  readonly sizes?: Readonly<Record<string, number>>;
  /** Inputs that are one number everywhere, such as a mask of ones, by name. */
  readonly fixed?: Readonly<Record<string, number>>;
  /** The only output that matters; by default all of them. */
  readonly output?: string;
  /** Initializers that become inputs of the graph instead of constants: weights that are to learn. */
  readonly asInput?: (name: string) => boolean;
}

/** Float initializers keep their names as constants; int64 inputs become int32, which is what travels. */
export function decodeOnnx(bytes: Uint8Array, options: DecodeOptions = {}): GraphModel {
  return decodeGraph(prepareOnnx(bytes, options), options);
}

/** The file's graph with weights where weights belong: in initializers, not in attributes or nodes. */
export function prepareOnnx(bytes: Uint8Array, options: Partial<OnnxLimits> & { output?: string } = {}): OnnxGraph {
  const parsed = parseOnnx(bytes, { ...onnxLimits, ...options });
  const { output } = options;
  const known = parsed.outputs.map(({ name }) => name);
  if (output !== undefined && !known.includes(output))
    fail("invalid_argument", `the ONNX model has no output "${output}": it has ${known.join(", ")}`);
  const graph = output === undefined ? parsed : needed(parsed, output);
  return expandLinearModels(withConstantsAside(graph));
}

/** Only what the one output is computed from. */
function needed(graph: OnnxGraph, output: string): OnnxGraph {
  const wanted = new Set([output]);
  const nodes = graph.nodes.toReversed().filter((node) => {
    if (!node.outputs.some((name) => wanted.has(name))) return false;
    for (const name of node.inputs) wanted.add(name);
    return true;
  });
  return { ...graph, nodes: nodes.reverse(), outputs: graph.outputs.filter(({ name }) => name === output) };
}

/** Some exporters write weights as Constant nodes. */
function withConstantsAside(graph: OnnxGraph): OnnxGraph {
  const initializers = new Map(graph.initializers);
  const nodes = graph.nodes.filter((node) => {
    const [name = ""] = node.outputs;
    if (node.type !== "Constant" || node.domain !== "" || name === "") return true;
    const tensor = constantOf(node);
    if (tensor.dtype !== "float32" || tensor.shape.length === 0 || initializers.has(name)) return true;
    initializers.set(name, tensor);
    return false;
  });
  return { ...graph, nodes, initializers };
}

export function decodeGraph(graph: OnnxGraph, options: DecodeOptions = {}): GraphModel {
  refuseUnknown(graph);
  const builder = new GraphBuilder(graph.name, { folding: "all" });
  const values = new Map<string, Value>();
  const opened = options.opensOne ? options.batch : undefined;
  for (const [name, tensor] of graph.initializers) values.set(name, initializerValue(builder, name, tensor, options));
  for (const input of graph.inputs)
    if (!values.has(input.name)) values.set(input.name, addInput(builder, input, options));
  for (const node of graph.nodes) {
    const inputs = node.inputs.map((name) => {
      if (name === "") return undefined;
      if (graph.texts.has(name)) fail("unimplemented", `${placeOf(node)} works on texts, which is not supported`);
      return (
        values.get(name) ??
        fail("invalid_argument", `${placeOf(node)} uses "${name}", which nothing computes before it`)
      );
    });
    const outputs = translated(new Site(builder, node, inputs, { opset: graph.opset, opened }));
    for (const [i, name] of node.outputs.entries()) {
      const value = outputs[i];
      if (name !== "" && value) values.set(name, value);
    }
  }
  for (const { name } of graph.outputs)
    builder.output(
      values.get(name) ?? fail("invalid_argument", `the ONNX model never computes its output "${name}"`),
      name,
    );
  return builder.build();
}

function initializerValue(builder: GraphBuilder, name: string, tensor: Tensor, options: DecodeOptions): Value {
  return options.asInput?.(name)
    ? builder.input(name, tensor.dtype, tensor.shape)
    : builder.constant(tensor, name || "initializer");
}

function refuseUnknown({ nodes }: OnnxGraph): void {
  const unknown = new Set(
    nodes
      .filter(({ type, domain }) => translationOf(type, domain) === undefined)
      .map(({ type, domain }) => (domain === "" ? type : `${domain}.${type}`)),
  );
  if (unknown.size === 0) return;
  const known = Object.keys(translations).filter((name) => !name.includes("."));
  fail(
    "unimplemented",
    `the ONNX model uses operators that are not supported: ${[...unknown].sort().join(", ")}. Supported are ${known.sort().join(", ")}`,
  );
}

function addInput(builder: GraphBuilder, input: OnnxValue, options: DecodeOptions): Value {
  const dtype = onnxTypes[input.type];
  const shape = input.shape.map((size, axis) => concreteSize(input, size, axis, options));
  const number = options.fixed && Object.hasOwn(options.fixed, input.name) ? options.fixed[input.name] : undefined;
  if (number !== undefined && dtype !== undefined) return builder.constant(filledWith(dtype, shape, number));
  if (dtype === "int64") return builder.op("Cast", [builder.input(input.name, "int32", shape)], { to: 7 });
  if (dtype === "float16" || dtype === "bfloat16" || dtype === "float64")
    return builder.input(input.name, "float32", shape);
  if (dtype !== "float32" && dtype !== "int32" && dtype !== "bool")
    fail(
      "unimplemented",
      `input "${input.name}" has the ONNX type ${input.type}: floats, int32, int64 and bool are supported`,
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
  const isOpen = !(typeof size === "number" && size > 0) || (axis === 0 && size === 1 && options.opensOne === true);
  const value = isOpen ? (named ?? (axis === 0 ? options.batch : undefined)) : size;
  if (value === undefined || !Number.isSafeInteger(value) || value < 1)
    fail(
      "invalid_argument",
      `axis ${axis} of input "${input.name}" has the open size ${size ?? "?"}: say how large it is`,
    );
  return value;
}

function filledWith(dtype: Tensor["dtype"], shape: Shape, value: number): Tensor {
  const tensor = allocateBounded(dtype, shape);
  (tensor.data as Float32Array).fill(
    (tensor.data instanceof BigInt64Array ? BigInt(Math.trunc(value)) : value) as number,
  );
  return tensor;
}
