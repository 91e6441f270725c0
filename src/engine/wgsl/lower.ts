// From a graph to shaders: every node becomes a view, a dispatch or more, or part of another node's dispatch. Pure: what comes out is a
// list of texts and buffers, which depends on the graph alone.

import { fail } from "../../core/errors.ts";
import { type DType, elementCount, type Shape, type Tensor } from "../../core/tensor.ts";
import { lowerModel } from "../../graph/lower.ts";
import type { GraphModel, GraphNode } from "../../graph/model.ts";
import type { Value } from "../../graph/operators/operator.ts";
import { operatorOf } from "../../graph/operators/registry.ts";
import { type Fusion, fuse, loopOf } from "../portable/fuse.ts";
import { broadcastTo, isContiguous, type View, wholeView } from "../portable/views.ts";
import { type Context, type Expression, type MaximaOf, pushCopy, pushLoop } from "./context.ts";
import { elementCode, isElementwise } from "./elements.ts";
import { lowerBatchNormalization, lowerConv, lowerConvTranspose, lowerPool } from "./images.ts";
import {
  lowerConcat,
  lowerExpand,
  lowerGather,
  lowerGatherElements,
  lowerPad,
  lowerReshape,
  lowerRotary,
  lowerScatterElements,
  lowerSlice,
  lowerSplit,
  lowerTranspose,
} from "./moves.ts";
import { planSlots, type SlotPlan } from "./plan.ts";
import { lowerProduct } from "./products.ts";
import { lowerLayerNormalization, lowerReduction, lowerSoftmax } from "./rows.ts";
import { bindingsMax, type Dispatch, literal, wordOf } from "./shader.ts";

/** What a buffer stands for. Constants of one type share one, and so do inputs of a single float: bindings are few. */
export type Buffer = { readonly bytes: number } & (
  | { readonly kind: "scratch" | "numbers" }
  | { readonly kind: "input" | "output"; readonly index: number }
  | { readonly kind: "constants"; readonly words: readonly number[]; readonly word: "f32" | "i32" | "u32" }
);

/** Indices of a feed that must be below `size`. */
export interface IndexCheck {
  readonly input: number;
  readonly type: string;
  readonly size: number;
}

export interface ShaderPlan extends SlotPlan {
  readonly buffers: readonly Buffer[];
  readonly dispatches: readonly Dispatch[];
  /** Places of inputs among the numbers, by their index. */
  readonly numbers: ReadonlyMap<number, number>;
  readonly checks: readonly IndexCheck[];
}

const lowerings: Readonly<Record<string, (context: Context, node: GraphNode) => void>> = {
  AveragePool: lowerPool,
  BatchNormalization: lowerBatchNormalization,
  Concat: lowerConcat,
  Conv: lowerConv,
  ConvTranspose: lowerConvTranspose,
  Expand: lowerExpand,
  FusedMatMul: lowerProduct,
  Gather: lowerGather,
  GatherElements: lowerGatherElements,
  Gemm: lowerProduct,
  Identity: lowerReshape,
  LayerNormalization: lowerLayerNormalization,
  LogSoftmax: lowerSoftmax,
  MatMul: lowerProduct,
  MaxPool: lowerPool,
  Pad: lowerPad,
  ReduceMax: lowerReduction,
  ReduceMean: lowerReduction,
  ReduceSum: lowerReduction,
  Reshape: lowerReshape,
  RotaryEmbedding: lowerRotary,
  ScatterElements: lowerScatterElements,
  Slice: lowerSlice,
  Softmax: lowerSoftmax,
  Split: lowerSplit,
  Transpose: lowerTranspose,
};

/** A loop writes one buffer, and may be bound to constants of two types and to the numbers. */
const leavesMax = bindingsMax - 4;

export function lowerToShaders(given: GraphModel): ShaderPlan {
  const isComposite = given.nodes.some(({ op }) => operatorOf(op).lower !== undefined);
  return new GraphLowering(withoutSums(isComposite ? lowerModel(given) : given)).run();
}

/** Sums of many as sums of two, in order: no loop reads too many buffers. */
function withoutSums(graph: GraphModel): GraphModel {
  const nodes = graph.nodes.flatMap((node): GraphNode[] => {
    if (node.op !== "Sum") return [node];
    const [first, ...rest] = node.inputs as [string, ...string[]];
    if (rest.length === 0) return [{ ...node, op: "Identity" }];
    let before = first;
    return rest.map((name, i) => {
      const out = i === rest.length - 1 ? (node.outputs[0] as string) : `${node.outputs[0]} up to ${i}`;
      const sum = { op: "Add", name: out, inputs: [before, name], outputs: [out], attributes: {} };
      before = out;
      return sum;
    });
  });
  return { ...graph, nodes };
}

class GraphLowering implements Context {
  readonly maxima = new Map<number, MaximaOf>();
  readonly #graph: GraphModel;
  readonly #infos = new Map<string, Value>();
  readonly #views = new Map<string, View>();
  readonly #buffers: Buffer[] = [];
  readonly #dispatches: Dispatch[] = [];
  readonly #numbers = new Map<number, number>();
  readonly #checks: IndexCheck[] = [];
  readonly #constants = new Map<string, { readonly buffer: number; readonly words: number[] }>();
  readonly #fusion: Fusion;

  constructor(graph: GraphModel) {
    this.#graph = graph;
    const numbers = graph.inputs.filter(isNumber).length;
    const shared = numbers === 0 ? -1 : this.#buffers.push({ kind: "numbers", bytes: 4 * numbers }) - 1;
    for (const [index, { name, dtype, shape }] of graph.inputs.entries()) {
      this.#infos.set(name, { name, dtype, shape });
      const place = this.#numbers.size;
      if (isNumber({ dtype, shape })) {
        this.#numbers.set(index, place);
        this.#views.set(name, { ...wholeView(shared, dtype, shape), offset: place });
      } else this.#views.set(name, this.#buffer({ kind: "input", index, bytes: bytesOf(shape) }, dtype, shape));
    }
    for (const [name, tensor] of Object.entries(graph.constants)) {
      this.#infos.set(name, { name, dtype: tensor.dtype, shape: tensor.shape, constant: tensor });
      this.#views.set(name, this.#constant(tensor));
    }
    for (const node of graph.nodes) this.#infer(node);
    const inputs = new Map(graph.inputs.map(({ name }, index) => [name, index]));
    const isShared = (name: string) =>
      this.info(name).constant !== undefined || this.#numbers.has(inputs.get(name) ?? -1);
    this.#fusion = fuse(graph, (name) => this.info(name), {
      isElementwise,
      fits: (leaves) => [...leaves].filter((name) => !isShared(name)).length <= leavesMax,
    });
  }

  #infer(node: GraphNode): void {
    const inputs = node.inputs.map((name) => this.info(name));
    const results = operatorOf(node.op).infer(inputs, node.attributes);
    for (const [i, name] of node.outputs.entries()) {
      const result = results[i] ?? this.#refuse(`${node.name} has no output ${i}`);
      this.#infos.set(name, { name, dtype: result.dtype, shape: result.shape });
    }
  }

  #refuse(what: string): never {
    return fail("invalid_argument", `graph "${this.#graph.name}": ${what}`);
  }

  run(): ShaderPlan {
    for (const node of this.#graph.nodes) {
      if (this.#fusion.isInside(node)) continue;
      if (this.#fusion.isElementwise(node)) this.#elementwise(node);
      else (lowerings[node.op] ?? unknown)(this, node);
    }
    for (const [index, { name }] of this.#graph.outputs.entries()) this.#deliver(name, index);
    for (const { buffer, words } of this.#constants.values())
      this.#buffers[buffer] = { ...(this.#buffers[buffer] as Buffer), bytes: 4 * words.length } as Buffer;
    const [buffers, dispatches] = [this.#buffers, this.#dispatches];
    const bytes = (buffer: number) => (buffers[buffer]?.kind === "scratch" ? buffers[buffer].bytes : undefined);
    const slots = planSlots(dispatches, bytes);
    return { buffers, dispatches, numbers: this.#numbers, checks: this.#checks, ...slots };
  }

  info(name: string): Value {
    return this.#infos.get(name) ?? this.#refuse(`"${name}" is used before it is computed`);
  }

  view(name: string): View {
    return this.#views.get(name) as View;
  }

  define(name: string, view: View): void {
    this.#views.set(name, view);
  }

  #buffer(buffer: Buffer, dtype: DType, shape: Shape): View {
    wordOf(dtype);
    return wholeView(this.#buffers.push(buffer) - 1, dtype, shape);
  }

  /** Behind the others of its type. */
  #constant({ dtype, shape, data }: Tensor): View {
    const word = wordOf(dtype);
    let known = this.#constants.get(word);
    if (known === undefined) {
      const words: number[] = [];
      known = { buffer: this.#buffers.push({ kind: "constants", bytes: 0, words, word }) - 1, words };
      this.#constants.set(word, known);
    }
    const offset = known.words.length;
    for (const value of data) known.words.push(Number(value));
    return { ...wholeView(known.buffer, dtype, shape), offset };
  }

  fresh(dtype: DType, shape: Shape): View {
    return this.#buffer({ kind: "scratch", bytes: bytesOf(shape) }, dtype, shape);
  }

  dispatch(dispatch: Dispatch): void {
    this.#dispatches.push(dispatch);
  }

  indexed(indices: View, type: string, size: number): void {
    const buffer = this.#buffers[indices.buffer];
    if (buffer?.kind === "input") this.#checks.push({ input: buffer.index, type, size });
  }

  #elementwise(node: GraphNode): void {
    const out = node.outputs[0] as string;
    const { dtype, shape } = this.info(out);
    const result = this.fresh(dtype, shape);
    const names = [...this.#fusion.membersOf(node), node].map(({ op }) => op);
    pushLoop(this, result, this.expressionOf(node, out, shape), names.join("+"));
    this.define(out, result);
  }

  expressionOf(root: GraphNode, value: string, shape: Shape): Expression {
    const { nodes, reads } = loopOf(this.#fusion, root, value);
    const literals = new Map<string, string>();
    for (const name of reads) {
      const known = literalOf(this.info(name));
      if (known !== undefined) literals.set(name, known);
    }
    const names = [...reads].filter((name) => !literals.has(name));
    return {
      leaves: names.map((name) => broadcastTo(this.view(name), shape)),
      dtype: this.info(value).dtype,
      compute: (loaded) => {
        const known = new Map(literals);
        for (const [i, name] of names.entries()) known.set(name, loaded[i] as string);
        const lines = nodes.map((node, i) => {
          const operands = node.inputs.map((name) => known.get(name) as string);
          const [from, to] = [node.inputs[0], node.outputs[0]].map((name) => this.info(name as string).dtype);
          known.set(node.outputs[0] as string, `v${i}`);
          return `let v${i} = ${elementCode(node, operands, from as DType, to as DType)};`;
        });
        return { lines, value: known.get(value) as string };
      },
    };
  }

  /** A computed buffer that is the output and nothing else becomes it; everything else is copied there. */
  #deliver(name: string, index: number): void {
    const { dtype, shape } = this.info(name);
    const view = this.#views.get(name) ?? this.#refuse(`"${name}" is never computed`);
    const bytes = bytesOf(shape);
    const buffer = this.#buffers[view.buffer];
    if (buffer?.kind === "scratch" && buffer.bytes === bytes && view.offset === 0 && isContiguous(view))
      this.#buffers[view.buffer] = { kind: "output", index, bytes };
    else pushCopy(this, this.#buffer({ kind: "output", index, bytes }, dtype, shape), view, "output");
  }
}

/** Every element is a word. */
const bytesOf = (shape: Shape) => 4 * elementCount(shape);

const isNumber = ({ dtype, shape }: Pick<Value, "dtype" | "shape">) => dtype === "float32" && elementCount(shape) === 1;

function unknown(_: Context, { op }: GraphNode): never {
  return fail("unimplemented", `${op} does not run on the GPUs of browsers: use portable numerics`);
}

/** A constant with one element is part of the code. */
function literalOf({ constant, dtype, shape }: Value): string | undefined {
  if (constant === undefined || elementCount(shape) !== 1) return undefined;
  const value = Number(constant.data[0]);
  if (dtype === "bool") return value === 0 ? "false" : "true";
  if (dtype !== "float32") return `i32(${value})`;
  return Number.isFinite(Math.fround(value)) ? literal(value) : undefined;
}
