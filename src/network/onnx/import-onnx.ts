// Turns an ONNX model into a definition with its weights as initial state. The model is cut where a single
// activation crosses and enough weights lie behind, so that its pieces can live on different machines.

import { stringify } from "yaml";
import { DcnrError, fail } from "../../core/errors.ts";
import { elementCount, type Shape, type Tensor } from "../../core/tensor.ts";
import type { Value } from "../../graph/builder.ts";
import { inferValues } from "../../graph/cost.ts";
import type { GraphModel, GraphNode } from "../../graph/model.ts";
import { type OnnxGraph, type OnnxValue, parseOnnx } from "../../graph/onnx-parse.ts";
import { decodeGraph, prepareOnnx } from "../../graph/onnx-read.ts";
import { onnxTypes } from "../../graph/operators/elements/cast.ts";
import { classNamesOf } from "../../graph/translate/linear-models.ts";
import { trainedInitializers, type WeightChoice } from "./onnx-weights.ts";
import { encodeTemplate, type Template, templateConstant, templateNode } from "./template.ts";

export interface ImportOptions extends WeightChoice {
  readonly name: string;
  /** The loss behind the output; by default `ce` after a softmax, `none` behind whole numbers, else `ce_logits`. */
  readonly cost?: "mse" | "ce" | "ce_logits" | "none";
  /** More VNodes than this are not made. */
  readonly piecesMax?: number;
  /** Sizes that the file leaves open, by name; the batch is always open. */
  readonly sizes?: Readonly<Record<string, number>>;
  /** Inputs that are one number everywhere, such as a mask of ones, by name. */
  readonly fixed?: Readonly<Record<string, number>>;
  /** Which output to take where there are several. */
  readonly output?: string;
  /** Names of the output's classes; by default those that the file has. */
  readonly classes?: readonly string[];
}

export interface ImportedNetwork {
  readonly definition: string;
  /** By parameter name, as in the compiled plan. */
  readonly weights: ReadonlyMap<string, Tensor>;
  /** Float tensors of the file that do not learn, such as masks and statistics. */
  readonly constants: readonly string[];
  readonly classes: readonly string[] | undefined;
}

/** Primes that hardly any model has as a size of its own: what differs in proportion to them is the batch. */
const batches = [37, 41] as const;

export function importOnnx(bytes: Uint8Array, options: ImportOptions): ImportedNetwork {
  const parsed = parseOnnx(bytes);
  const output = options.output ?? chosenOutput(parsed.outputs);
  const file = prepareOnnx(bytes, { output });
  for (const name of [...(options.constant ?? []), ...(options.trainable ?? [])])
    if (!file.initializers.has(name)) fail("invalid_argument", `the ONNX model has no weight "${name}"`);
  const weights = trainedInitializers(file, options);
  if (weights.size === 0) fail("invalid_argument", "the ONNX model has no weights that could be trained");
  const models = readTwice(file, weights, options);
  const cuts = cutPoints(models, weights, options.piecesMax ?? 32);
  const pieces = cuts.map((end, i) => pieceOf(models, weights, i === 0 ? 0 : cuts[i - 1]!, end));
  const ids = pieces.map((_, i) => `part_${i + 1}`);
  const classes = options.classes ?? classNamesOf(parsed);
  const known = classes?.length === pieces.at(-1)!.output.shape.at(-1) ? classes : undefined;
  if (options.classes !== undefined && known === undefined)
    fail(
      "invalid_argument",
      `${options.classes.length} names of classes do not fit the output [${pieces.at(-1)!.output.shape}]`,
    );
  const used = new Set(pieces.flatMap((piece) => piece.parameters.map(({ name }) => originalName(name, weights))));
  return {
    definition: definitionText(options, pieces, ids, known),
    weights: new Map(
      pieces.flatMap((piece, i) =>
        piece.parameters.map(({ name }) => [`${ids[i]}.${name}`, weights.get(originalName(name, weights))!] as const),
      ),
    ),
    constants: [...file.initializers].flatMap(([name, { dtype }]) =>
      dtype === "float32" && !used.has(name) ? [name] : [],
    ),
    classes: known,
  };
}

type Pair<T> = readonly [T, T];

/** The only output, or the only one with floats: classifiers give the label beside the scores. */
function chosenOutput(outputs: readonly OnnxValue[]): string {
  const isScores = ({ type }: OnnxValue) => type === 0 || onnxTypes[type]?.includes("float") === true;
  const scores = outputs.filter(isScores);
  const candidates = outputs.length === 1 ? outputs : scores;
  if (candidates.length === 1) return candidates[0]!.name;
  return fail(
    "unimplemented",
    `the ONNX model has ${outputs.length} outputs (${outputs.map(({ name }) => name).join(", ")}): say which one to take`,
  );
}

function readTwice(
  file: OnnxGraph,
  weights: ReadonlyMap<string, Tensor>,
  { sizes, fixed }: ImportOptions,
): Pair<GraphModel> {
  const data = file.inputs.filter(({ name }) => !file.initializers.has(name) && !Object.hasOwn(fixed ?? {}, name));
  if (data.length !== 1)
    fail(
      "unimplemented",
      `the ONNX model has ${data.length} inputs (${data.map(({ name }) => name).join(", ")}): one can be fed, the others must be fixed to a number`,
    );
  const given = { asInput: (name: string) => weights.has(name), ...(sizes && { sizes }), ...(fixed && { fixed }) };
  const opensOne = data[0]!.shape[0] === 1;
  try {
    const [a, b] = batches.map((batch) => decodeGraph(file, { ...given, batch, opensOne })) as [GraphModel, GraphModel];
    return [inFloats(a), inFloats(b)];
  } catch (thrown) {
    if (!opensOne || !(thrown instanceof DcnrError) || thrown.code === "resource_exhausted") throw thrown;
    return fail(
      thrown.code,
      `${thrown.message} (the file was exported for 1 sample; if that is the cause, export it with an open batch)`,
    );
  }
}

/** What a network gives is floats: places and labels become them. */
function inFloats(model: GraphModel): GraphModel {
  const [output] = model.outputs;
  if (output === undefined || output.dtype === "float32") return model;
  const name = `${output.name} as floats`;
  const cast: GraphNode = { op: "Cast", name, inputs: [output.name], outputs: [name], attributes: { to: 1 } };
  return { ...model, nodes: [...model.nodes, cast], outputs: [{ ...output, name, dtype: "float32" }] };
}

function dataInput(model: GraphModel, weights: ReadonlyMap<string, Tensor>) {
  const [input] = model.inputs.filter(({ name }) => !weights.has(name));
  return input ?? fail("unimplemented", "the ONNX model's output does not depend on its input");
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

/** A constant stands at the same input of the same node for both batch sizes. */
function otherConstant([model, other]: Pair<GraphModel>, name: string): Tensor {
  for (const [i, { inputs }] of model.nodes.entries()) {
    const at = inputs.indexOf(name);
    const twin = at === -1 ? undefined : other.constants[other.nodes[i]!.inputs[at] as string];
    if (twin !== undefined) return twin;
  }
  return fail("unimplemented", `the ONNX model's constant "${name}" depends on the batch size`);
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

/** The loss that fits the last operator, seen through changes of shape. */
function usualCost({ nodes }: Template): NonNullable<ImportOptions["cost"]> {
  const last = nodes.findLast(({ op }) => op !== "Reshape" && op !== "Transpose")?.op;
  return last === "Softmax" ? "ce" : last === "Cast" ? "none" : "ce_logits";
}

function definitionText(
  options: ImportOptions,
  pieces: readonly Template[],
  ids: readonly string[],
  classes: readonly string[] | undefined,
): string {
  const cost = options.cost ?? usualCost(pieces.at(-1)!);
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
  const metadata = classes && { metadata: { classes: [...classes] } };
  return stringify({ name: options.name, ...metadata, nodes, edges, outputs, costs }, { lineWidth: 0 });
}

function shapeList(shape: Shape): number[] {
  return [...shape];
}
