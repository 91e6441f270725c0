// Weights in 8 or 4 bits for served models: blocks of 32 along what a product sums over, each with a float scale, as GGUF's
// q8_0 and q4_0 have them. What was made from such blocks comes out as exactly the same whole numbers and scales, so that
// nothing is lost twice. Division and rounding alone: the same on every machine.

import { ownPages } from "../core/bytes.ts";
import { elementCount, type Tensor } from "../core/tensor.ts";
import type { GraphNode, ValueInfo } from "./model.ts";
import type { UnitGraph, UnitPlan } from "./unit.ts";

export type WeightBits = 8 | 4;

const block = 32;

/** [columns, inner] out of [inner, columns] or [columns, inner]; `inner` is a multiple of the block. */
export function quantise(
  { data, shape }: Tensor,
  bits: WeightBits,
  transposed: boolean,
): { readonly weights: Tensor; readonly scales: Tensor; readonly error: number } {
  const [inner = 0, columns = 0] = transposed ? shape.toReversed() : shape;
  const source = data as Float32Array;
  const [along, across] = transposed ? [1, inner] : [columns, 1];
  const blocks = inner / block;
  const packed = new Uint8Array(ownPages((elementCount(shape) * bits) / 8));
  const scales = new Float32Array(ownPages(4 * columns * blocks));
  const whole = new Int32Array(block);
  let [lost, size] = [0, 0];
  for (let index = 0; index < scales.length; index++) {
    const start = Math.floor(index / blocks) * across + (index % blocks) * block * along;
    const scale = Math.fround(scaleOf(source, start, along, bits));
    scales[index] = scale;
    for (let k = 0; k < block; k++) {
      const value = source[start + k * along] as number;
      whole[k] = scale === 0 ? 0 : nearest(value / scale, bits);
      size += Math.abs(value);
      lost += Math.abs(value - (whole[k] as number) * scale);
    }
    pack(whole, packed, index * block, bits);
  }
  return {
    weights: { dtype: "uint8", shape: [columns, blocks, (block * bits) / 8], data: packed },
    scales: { dtype: "float32", shape: [columns, blocks], data: scales },
    error: size === 0 ? 0 : lost / size,
  };
}

/** In 8 bits the largest element is 127 or -127; in 4 bits it is -8, so that all sixteen numbers are used. */
function scaleOf(source: Float32Array, start: number, along: number, bits: WeightBits): number {
  let largest = 0;
  for (let k = 0; k < block; k++) {
    const value = source[start + k * along] as number;
    if (Math.abs(value) > Math.abs(largest)) largest = value;
  }
  if (largest === 0) return 0;
  return bits === 8 ? Math.abs(largest) / 127 : largest / -8;
}

function nearest(value: number, bits: WeightBits): number {
  const rounded = Math.floor(value + 0.5);
  const most = bits === 8 ? 127 : 7;
  return Math.min(most, Math.max(bits === 8 ? -127 : -8, rounded));
}

function pack(whole: Int32Array, packed: Uint8Array, from: number, bits: WeightBits): void {
  if (bits === 8) for (let k = 0; k < block; k++) packed[from + k] = (whole[k] as number) + 128;
  else
    for (let k = 0; k < block; k += 2)
      packed[(from + k) / 2] = ((whole[k] as number) + 8) | (((whole[k + 1] as number) + 8) << 4);
}

export interface QuantisedUnit {
  readonly plan: UnitPlan;
  readonly weights: Readonly<Record<string, Tensor>>;
  /** What the weights lost of their size, on the average. */
  readonly error: number;
}

/** Products and tables whose weights have whole blocks become those of few bits; the rest stays as it is. */
export function quantiseUnit(plan: UnitPlan, given: Readonly<Record<string, Tensor>>, bits: WeightBits): QuantisedUnit {
  const weights: Record<string, Tensor> = { ...given };
  const errors: { error: number; elements: number }[] = [];
  const steps = plan.steps.map((step) => {
    if (step.kind !== "graph") return step;
    const changed = step.graph.nodes.map((node) => fewBits(step, node, given, bits));
    for (const change of changed) {
      if (change === undefined) continue;
      Object.assign(weights, change.weights);
      errors.push(change);
    }
    return withNodes(step, changed);
  });
  const used = new Set(steps.flatMap((step) => (step.kind === "graph" ? step.weights : [])));
  const elements = errors.reduce((sum, each) => sum + each.elements, 0);
  return {
    plan: { ...plan, steps },
    weights: Object.fromEntries(Object.entries(weights).filter(([name]) => used.has(name))),
    error: errors.reduce((sum, each) => sum + (each.error * each.elements) / Math.max(1, elements), 0),
  };
}

interface Change {
  readonly nodes: readonly GraphNode[];
  readonly infos: readonly ValueInfo[];
  readonly weights: Readonly<Record<string, Tensor>>;
  readonly error: number;
  readonly elements: number;
}

function fewBits(
  { weights }: UnitGraph,
  node: GraphNode,
  given: Readonly<Record<string, Tensor>>,
  bits: WeightBits,
): Change | undefined {
  const isProduct = node.op === "Gemm" || node.op === "Linear";
  if (!isProduct && !(node.op === "Gather" && (node.attributes["axis"] ?? 0) === 0)) return undefined;
  const name = node.inputs[isProduct ? 1 : 0] as string;
  const matrix = given[name];
  if (matrix === undefined || !weights.includes(name) || matrix.shape.length !== 2) return undefined;
  const transposed = !isProduct || node.attributes["transB"] === 1 || node.attributes["transposed"] === 1;
  const [inner = 0, columns = 0] = transposed ? matrix.shape.toReversed() : matrix.shape;
  if (inner % block !== 0 || (node.attributes["alpha"] ?? 1) !== 1) return undefined;
  const { weights: whole, scales, error } = quantise(matrix, bits, transposed);
  const [wholeName, scalesName] = [`${name}:${bits} bits`, `${name}:scales of ${bits} bits`];
  const table = isProduct ? whole : { ...whole, shape: [columns, (inner * bits) / 8] };
  const data = isProduct ? (node.inputs[0] as string) : (node.inputs[1] as string);
  const sizes: GraphNode["attributes"] = isProduct
    ? { K: inner, N: columns, bits, block_size: block, accuracy_level: 4 }
    : { bits, block_size: block, gather_axis: 0, quantize_axis: 1 };
  const [output] = node.outputs as [string];
  const bias = isProduct ? node.inputs[2] : undefined;
  const product: GraphNode = {
    op: isProduct ? "MatMulNBits" : "GatherBlockQuantized",
    name: `${node.name} in ${bits} bits`,
    inputs: isProduct ? [data, wholeName, scalesName] : [wholeName, data, scalesName],
    outputs: [bias === undefined ? output : `${output}:without bias`],
    attributes: sizes,
  };
  const added = { op: "Add", name: node.name, inputs: [`${output}:without bias`, bias as string], attributes: {} };
  return {
    nodes: bias === undefined ? [product] : [product, { ...added, outputs: [output] }],
    infos: [
      { name: wholeName, dtype: table.dtype, shape: table.shape },
      { name: scalesName, dtype: scales.dtype, shape: scales.shape },
    ],
    weights: { [wholeName]: table, [scalesName]: scales },
    error,
    elements: elementCount(matrix.shape),
  };
}

function withNodes<T extends UnitGraph>(step: T, changed: readonly (Change | undefined)[]): T {
  const nodes = step.graph.nodes.flatMap((node, i) => changed[i]?.nodes ?? [node]);
  const used = new Set(nodes.flatMap((node) => node.inputs));
  const fresh = changed.flatMap((change) => change?.infos ?? []);
  const infos = [...step.graph.inputs, ...fresh].filter(({ name }) => used.has(name));
  const inputs = [...new Map(infos.map((info) => [info.name, info])).values()];
  const weights = [...step.weights, ...fresh.map(({ name }) => name)].filter((name) => used.has(name));
  return { ...step, graph: { ...step.graph, nodes, inputs }, weights: [...new Set(weights)] };
}
