// Which numbers of an ONNX file learn. The file does not say: parameters, masks, tables of sines and statistics are all
// initializers. What decides is how a number is used: as a factor of a product, a bias, a table, a norm's scale.

import { elementCount, firstNonFinite, type Tensor } from "../../core/tensor.ts";
import { entryOf } from "../../core/words/table.ts";
import type { OnnxGraph, OnnxNode } from "../../graph/onnx-parse.ts";

export interface WeightChoice {
  /** Initializers that must not learn, though their use says so. */
  readonly constant?: readonly string[];
  /** Initializers that learn, though their use does not say so. */
  readonly trainable?: readonly string[];
}

/** Masks hold numbers like -1e9; weights never do. */
const weightMagnitudeMax = 1e4;

/** Inputs that are weights whatever their size, by operator. */
const places: Readonly<Record<string, readonly number[]>> = {
  MatMul: [0, 1],
  FusedMatMul: [0, 1],
  Gemm: [0, 1, 2],
  Einsum: [0, 1, 2, 3],
  Conv: [1, 2],
  ConvTranspose: [1, 2],
  RNN: [1, 2, 3],
  LSTM: [1, 2, 3],
  GRU: [1, 2, 3],
  Gather: [0],
  GatherND: [0],
  LayerNormalization: [1, 2],
  SkipLayerNormalization: [2, 3, 4],
  InstanceNormalization: [1, 2],
  GroupNormalization: [1, 2],
  RMSNormalization: [1],
  SimplifiedLayerNormalization: [1],
  BatchNormalization: [1, 2],
  PRelu: [1],
  BiasGelu: [1],
  FastGelu: [1],
};

/** What an Add behind is a bias of, even if it is one number. */
const linear = new Set(["MatMul", "Gemm", "FusedMatMul", "Conv", "ConvTranspose", "Einsum"]);

/** They hand on what they are given: the use of their result decides. */
const carriers = new Set(
  "Transpose Reshape Expand Unsqueeze Squeeze Cast Identity Slice Split Flatten Tile Concat Dropout".split(" "),
);

export function trainedInitializers(graph: OnnxGraph, choice: WeightChoice = {}): Map<string, Tensor> {
  const found = usedAsWeights(graph);
  for (const name of choice.trainable ?? []) found.add(name);
  for (const name of choice.constant ?? []) found.delete(name);
  return new Map([...graph.initializers].filter(([name, tensor]) => found.has(name) && isPlausible(tensor)));
}

function isPlausible({ dtype, data }: Tensor): boolean {
  if (dtype !== "float32" || data.length === 0 || firstNonFinite(data) !== -1) return false;
  return (data as Float32Array).every((value) => Math.abs(value) < weightMagnitudeMax);
}

function usedAsWeights(graph: OnnxGraph): Set<string> {
  const found = new Set<string>();
  /** The initializers that a value is made of, for values that no data reaches. */
  const sources = new Map<string, readonly string[]>([...graph.initializers.keys()].map((name) => [name, [name]]));
  const computed = new Set(graph.inputs.map(({ name }) => name).filter((name) => !sources.has(name)));
  /** Values that weights have reached: what comes before is preparation of data. */
  const learned = new Set<string>();
  const producers = new Map<string, OnnxNode>();
  const sizeOf = (name: string) => elementCount(graph.initializers.get(name)?.shape ?? []);
  for (const node of graph.nodes) {
    // Sizes do not depend on data.
    const isComputed = node.type !== "Shape" && node.type !== "Size" && node.inputs.some((name) => computed.has(name));
    const takes = node.inputs.flatMap((name, at) =>
      sources.has(name) && isUse(node, at, { graph, computed, learned, producers, isComputed }) ? [name] : [],
    );
    for (const name of takes) for (const source of sources.get(name) as readonly string[]) found.add(source);
    const gets = takes.length > 0 || node.inputs.some((name) => learned.has(name));
    const carried = node.inputs.flatMap((name) => sources.get(name) ?? []);
    // A number computed of weights, such as a product of a direction and its length, is made of all its large parts.
    const passed =
      carriers.has(node.type) || node.type === "Gather" ? carried : carried.filter((name) => sizeOf(name) > 1);
    for (const name of node.outputs) {
      producers.set(name, node);
      if (isComputed) computed.add(name);
      else sources.set(name, passed);
      if (gets) learned.add(name);
    }
  }
  return found;
}

interface Known {
  readonly graph: OnnxGraph;
  readonly computed: ReadonlySet<string>;
  readonly learned: ReadonlySet<string>;
  readonly producers: ReadonlyMap<string, OnnxNode>;
  readonly isComputed: boolean;
}

function isUse(node: OnnxNode, at: number, known: Known): boolean {
  const { graph, computed, learned, producers, isComputed } = known;
  const name = node.inputs[at] as string;
  // Among constants nothing is decided yet; a table that constant places are picked from is one of them.
  if (!isComputed) return false;
  if (node.type === "Gather" && at === 0) return computed.has(node.inputs[1] ?? "");
  if (node.type === "InstanceNormalization" && at > 0 && isHalfOfGroupNorm(node, graph)) return false;
  if (entryOf(places, node.type)?.includes(at)) return true;
  const others = node.inputs.filter((other) => computed.has(other));
  const tensor = graph.initializers.get(name);
  const shape = tensor?.shape;
  const wide = shape?.filter((size) => size !== 1).length;
  if (node.type === "Add" || node.type === "Sum") {
    if (tensor !== undefined && elementCount(tensor.shape) === 1)
      return others.some((other) => linear.has(producers.get(other)?.type ?? ""));
    return others.some((other) => learned.has(other)) && !(tensor && isSines(tensor));
  }
  // A scale is a vector; a table with two axes, such as the cosines of rotary positions, is none.
  if (node.type === "Mul") return others.some((other) => learned.has(other)) && wide === 1;
  // A token of its own in front of the others.
  if (node.type === "Concat") return others.some((other) => learned.has(other)) && wide !== 0;
  return false;
}

/** Exporters write a group norm as an instance norm without effect of its own, and the channels' scale behind a reshape. */
function isHalfOfGroupNorm({ outputs }: OnnxNode, { nodes, initializers }: OnnxGraph): boolean {
  const users = (name: string) => nodes.filter(({ inputs }) => inputs.includes(name));
  return users(outputs[0] ?? "").some(
    ({ type, outputs: [reshaped = ""] }) =>
      type === "Reshape" &&
      users(reshaped).some(({ type: next, inputs }) => next === "Mul" && inputs.some((name) => initializers.has(name))),
  );
}

/** A table of sines and cosines of positions: in every row the squares add up to half the width. */
function isSines({ shape, data }: Tensor): boolean {
  const width = shape.at(-1) ?? 1;
  const rows = data.length / width;
  if (width < 2 || rows < 2) return false;
  for (let row = 0; row < rows; row++) {
    let sum = 0;
    for (let i = 0; i < width; i++) sum += Number(data[row * width + i]) ** 2;
    if (Math.abs(sum - width / 2) > 1e-3 * width) return false;
  }
  return true;
}
