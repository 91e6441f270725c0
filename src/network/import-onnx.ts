// Turns an ONNX model into a definition with its weights as initial state. The model is cut where a single
// activation crosses and enough weights lie behind, so that its pieces can live on different machines.

import { stringify } from "yaml";
import { fail } from "../core/errors.ts";
import { elementCount, firstNonFinite, type Shape, type Tensor } from "../core/tensor.ts";
import type { Value } from "../graph/builder.ts";
import { inferValues } from "../graph/cost.ts";
import type { GraphModel, GraphNode } from "../graph/model.ts";
import { type OnnxGraph, parseOnnx } from "../graph/onnx-parse.ts";
import { decodeOnnx } from "../graph/onnx-read.ts";
import { encodeTemplate, type Template, templateConstant, templateNode } from "./template.ts";

export interface ImportOptions {
  readonly name: string;
  /** The loss behind the output; by default `ce` after a softmax, else `ce_logits`. */
  readonly cost?: "mse" | "ce" | "ce_logits" | "none";
  /** More VNodes than this are not made. */
  readonly piecesMax?: number;
  /** Sizes that the file leaves open, by name; the batch is always open. */
  readonly sizes?: Readonly<Record<string, number>>;
}

export interface ImportedNetwork {
  readonly definition: string;
  /** By parameter name, as in the compiled plan. */
  readonly weights: ReadonlyMap<string, Tensor>;
}

/** Any two sizes do; what differs in proportion to them is the batch. */
const batches = [2, 3] as const;
/** Masks hold numbers like -1e9; weights never do. */
const weightMagnitudeMax = 1e4;

export function importOnnx(bytes: Uint8Array, options: ImportOptions): ImportedNetwork {
  const file = parseOnnx(bytes);
  const weights = learnable(file);
  const read = (batch: number) =>
    decodeOnnx(bytes, { batch, asInput: (name) => weights.has(name), ...(options.sizes && { sizes: options.sizes }) });
  const models: Pair<GraphModel> = [read(batches[0]), read(batches[1])];
  const cuts = cutPoints(models, weights, options.piecesMax ?? 32);
  const pieces = cuts.map((end, i) => pieceOf(models, weights, i === 0 ? 0 : cuts[i - 1]!, end));
  const ids = pieces.map((_, i) => `part_${i + 1}`);
  return {
    definition: definitionText(options, pieces, ids),
    weights: new Map(
      pieces.flatMap((piece, i) =>
        piece.parameters.map(({ name }) => [`${ids[i]}.${name}`, weights.get(originalName(name, weights))!] as const),
      ),
    ),
  };
}

type Pair<T> = readonly [T, T];

/** Float initializers that look like weights: no scalars, no masks, no running statistics. */
function learnable({ initializers, nodes }: OnnxGraph): Map<string, Tensor> {
  const statistics = new Set(
    nodes.filter(({ type }) => type === "BatchNormalization").flatMap(({ inputs }) => inputs.slice(3)),
  );
  const weights = new Map<string, Tensor>();
  for (const [name, tensor] of initializers) {
    if (tensor.dtype !== "float32" || tensor.shape.length === 0 || statistics.has(name)) continue;
    const values = tensor.data as Float32Array;
    const plausible = firstNonFinite(values) === -1 && values.every((value) => Math.abs(value) < weightMagnitudeMax);
    if (plausible) weights.set(name, tensor);
  }
  if (weights.size === 0) fail("invalid_argument", "the ONNX model has no weights that could be trained");
  return weights;
}

function dataInput(model: GraphModel, weights: ReadonlyMap<string, Tensor>) {
  const inputs = model.inputs.filter(({ name }) => !weights.has(name));
  if (inputs.length !== 1 || model.outputs.length !== 1)
    fail(
      "unimplemented",
      `the ONNX model has ${inputs.length} inputs (${inputs.map(({ name }) => name).join(", ")}) and ${model.outputs.length} outputs: only models with one of each can be imported`,
    );
  return inputs[0]!;
}

/** Ends of pieces, as counts of nodes; the last is all of them. */
function cutPoints(
  [model, other]: Pair<GraphModel>,
  weights: ReadonlyMap<string, Tensor>,
  piecesMax: number,
): number[] {
  if (model.nodes.length !== other.nodes.length || model.nodes.some((node, i) => node.op !== other.nodes[i]!.op))
    fail("unimplemented", "the ONNX model's operators depend on the batch size");
  const input = dataInput(model, weights);
  const values: Pair<ReadonlyMap<string, Value>> = [inferValues(model), inferValues(other)];
  const lastUse = new Map<string, number>();
  for (const [i, node] of model.nodes.entries()) for (const name of node.inputs) lastUse.set(name, i);
  for (const { name } of model.outputs) lastUse.set(name, model.nodes.length);
  const total = sizeOf([...weights.keys()], weights);
  const cuts: number[] = [];
  const live = new Set([input.name]);
  let behind = new Set<string>();
  // The latest place since the last weight: activations and pooling stay with what they follow.
  let place: number | undefined;
  for (const [i, node] of model.nodes.entries()) {
    const fresh = node.inputs.filter((name) => weights.has(name) && !behind.has(name));
    if (fresh.length > 0 && place !== undefined && cuts.length < piecesMax - 1) {
      cuts.push(place);
      behind = new Set();
    }
    if (fresh.length > 0) place = undefined;
    for (const name of fresh) behind.add(name);
    for (const name of node.inputs) if (!weights.has(name) && lastUse.get(name) === i) live.delete(name);
    for (const name of node.outputs) if ((lastUse.get(name) ?? -1) > i) live.add(name);
    // A weight that is used again later keeps its users in one piece.
    const shared = [...behind].some((name) => lastUse.get(name)! > i);
    const enough = behind.size > 0 && sizeOf([...behind], weights) >= total / piecesMax;
    const [crossing] = live;
    if (live.size === 1 && !shared && enough && carriesBatch(crossing!, values)) place = i + 1;
  }
  return [...cuts, model.nodes.length];
}

function carriesBatch(name: string, [a, b]: Pair<ReadonlyMap<string, Value>>): boolean {
  const [x, y] = [a.get(name), b.get(name)];
  if (x?.dtype !== "float32" || x.shape[0] !== batches[0] || y?.shape[0] !== batches[1]) return false;
  return String(x.shape.slice(1)) === String(y.shape.slice(1));
}

function sizeOf(names: readonly string[], weights: ReadonlyMap<string, Tensor>): number {
  return names.reduce((sum, name) => sum + elementCount(weights.get(name)!.shape), 0);
}

/** Nodes from `start` to before `end`, with the one value that comes in and the one that goes out. */
function pieceOf(models: Pair<GraphModel>, weights: ReadonlyMap<string, Tensor>, start: number, end: number): Template {
  const [model, other] = models;
  const values = inferValues(model);
  const nodes = model.nodes.slice(start, end);
  const produced = new Set(nodes.flatMap((node) => node.outputs));
  const used = new Set(nodes.flatMap((node) => node.inputs));
  const outside = [...used].filter((name) => !produced.has(name));
  const parameters = outside.filter((name) => weights.has(name));
  const constants = outside.filter((name) => model.constants[name] !== undefined);
  const [input] = outside.filter((name) => !weights.has(name) && model.constants[name] === undefined);
  const output = end === model.nodes.length ? model.outputs[0]!.name : crossingName(model, produced, end);
  if (input === undefined) return fail("unimplemented", "a part of the ONNX model does not depend on its input");
  const from = values.get(input)!;
  const to = values.get(output)!;
  if (to.dtype !== "float32" || to.shape[0] !== batches[0] || from.shape[0] !== batches[0])
    fail(
      "unimplemented",
      `the ONNX model's "${to.shape[0] === batches[0] ? input : output}" is not a float tensor with the batch in front`,
    );
  return {
    input: { name: input, kind: from.dtype === "float32" ? "floats" : "tokens", shape: from.shape.slice(1) },
    output: { name: output, shape: to.shape.slice(1) },
    parameters: parameters.map((name) => ({ name: safeName(name, weights), shape: weights.get(name)!.shape })),
    constants: constants.map((name) =>
      templateConstant(name, [model.constants[name]!, otherConstant(models, name)], batches),
    ),
    nodes: nodes.map((node, i) => withSafeNames(templateNode([node, other.nodes[start + i]!], batches), weights)),
  };
}

function crossingName(model: GraphModel, produced: ReadonlySet<string>, end: number): string {
  const later = model.nodes.slice(end).flatMap((node) => node.inputs);
  return later.find((name) => produced.has(name)) ?? fail("internal", "a piece has an output");
}

/** Constants are named in the order of their making, which is the same for both batch sizes. */
function otherConstant([model, other]: Pair<GraphModel>, name: string): Tensor {
  const byName = other.constants[name];
  if (byName !== undefined) return byName;
  const index = Object.keys(model.constants).indexOf(name);
  return (
    Object.values(other.constants)[index] ??
    fail("unimplemented", `the ONNX model's constant "${name}" depends on the batch size`)
  );
}

/** Parameter names become names of tensors in files: plain characters, still unique. */
function safeName(name: string, weights: ReadonlyMap<string, Tensor>): string {
  const plain = (text: string) => text.replaceAll(/[^A-Za-z0-9_.-]/g, "_").replace(/^[^A-Za-z0-9]+/, "") || "weight";
  const safe = plain(name);
  const twins = [...weights.keys()].filter((other) => plain(other) === safe);
  return twins.length === 1 ? safe : `${safe}_${twins.indexOf(name) + 1}`;
}

function originalName(safe: string, weights: ReadonlyMap<string, Tensor>): string {
  return [...weights.keys()].find((name) => safeName(name, weights) === safe)!;
}

function withSafeNames<Node extends Pick<GraphNode, "inputs">>(node: Node, weights: ReadonlyMap<string, Tensor>): Node {
  return { ...node, inputs: node.inputs.map((name) => (weights.has(name) ? safeName(name, weights) : name)) };
}

function definitionText(options: ImportOptions, pieces: readonly Template[], ids: readonly string[]): string {
  const last = pieces.at(-1)!;
  const cost = options.cost ?? (last.nodes.at(-1)?.op === "Softmax" ? "ce" : "ce_logits");
  const nodes: object[] = pieces.map((piece, i) => ({
    id: ids[i],
    type: "onnx",
    input_shapes: [shapeList(piece.input.shape)],
    output_shapes: [shapeList(piece.output.shape)],
    config: { graph: encodeTemplate(piece) },
  }));
  const edges: object[] = ids.slice(1).map((to, i) => ({ from: ids[i], to }));
  if (cost !== "none") {
    nodes.push({ id: "loss", type: "cost", config: { cost_function: cost } });
    edges.push({ from: ids.at(-1), to: "loss" });
  }
  const outputs = [{ name: "output", node_id: ids.at(-1), slot_id: 0 }];
  const costs = cost === "none" ? [] : [{ name: "loss", node_id: "loss", slot_id: 0 }];
  return stringify({ name: options.name, nodes, edges, outputs, costs }, { lineWidth: 0 });
}

function shapeList(shape: Shape): number[] {
  return [...shape];
}
